// Outlines and masks in image coordinates: x right, y down, pixel edges at whole numbers.

// [x, y, d, d, …] → [[x, y], …]: steps are by turns horizontal and vertical, horizontal first
export function pointsOf(ring) {
  let [x, y] = ring;
  const points = [[x, y]];
  for (let k = 2; k < ring.length; k++) {
    if (k % 2 === 0) x += ring[k];
    else y += ring[k];
    points.push([x, y]);
  }
  return points;
}

export function boundsOf(rings) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const ring of rings) {
    for (const [x, y] of ring) {
      if (x < left) left = x;
      if (x > right) right = x;
      if (y < top) top = y;
      if (y > bottom) bottom = y;
    }
  }
  return [left, top, right, bottom];
}

export function pathOf(rings) {
  const path = new Path2D();
  for (const ring of rings) {
    ring.forEach(([x, y], k) => (k ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }
  return path;
}

function thinned(ring, step) {
  let [x0, y0] = ring[0];
  const kept = ring.filter(([x, y], k) => {
    if (k && Math.abs(x - x0) < step && Math.abs(y - y0) < step) return false;
    [x0, y0] = [x, y];
    return true;
  });
  return kept.length > 2 ? kept : ring;
}

export class Shape {
  constructor({ id, version, rings, area_px }) {
    this.id = id;
    this.version = version;
    this.area_px = area_px;
    this.rings = rings.map(pointsOf);
    this.bounds = boundsOf(this.rings);
    this._path = null;
  }

  get path() {
    this._path ??= pathOf(this.rings);
    return this._path;
  }

  // for drawing small: vertices closer together than this are one; a power of two, at most 1 is exact
  coarse(step) {
    if (step <= 1) return this.path;
    if (this._step !== step) {
      this._step = step;
      this._coarse = pathOf(this.rings.map((ring) => thinned(ring, step)));
    }
    return this._coarse;
  }

  holds(x, y) {
    const [left, top, right, bottom] = this.bounds;
    return x >= left && x < right && y >= top && y < bottom && isInside(this.rings, x, y);
  }
}

export function isInside(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let k = 0, j = ring.length - 1; k < ring.length; j = k++) {
      const [xk, yk] = ring[k];
      const [xj, yj] = ring[j];
      if (yk > y !== yj > y && x < ((xj - xk) * (y - yk)) / (yj - yk) + xk) inside = !inside;
    }
  }
  return inside;
}

// A mask in a window of the scene; it grows when it is painted on outside.
export class Mask {
  constructor(x, y, width, height, data) {
    Object.assign(this, { x, y, width, height });
    this.data = data ?? new Uint8Array(width * height);
  }

  // exact for pixel-edge rings: between the vertical edges of a row, by turns, is inside
  static ofRings(rings) {
    const [left, top, right, bottom] = boundsOf(rings);
    if (!(right > left)) return new Mask(0, 0, 0, 0);
    const mask = new Mask(left, top, right - left, bottom - top);
    const crossings = Array.from({ length: mask.height }, () => []);
    for (const ring of rings) {
      for (let k = 0; k < ring.length; k++) {
        const [x0, y0] = ring[k];
        const [x1, y1] = ring[(k + 1) % ring.length];
        if (x0 === x1) for (let y = Math.min(y0, y1); y < Math.max(y0, y1); y++) crossings[y - top].push(x0 - left);
      }
    }
    crossings.forEach((xs, row) => {
      xs.sort((a, b) => a - b);
      for (let k = 0; k + 1 < xs.length; k += 2) mask.data.fill(1, row * mask.width + xs[k], row * mask.width + xs[k + 1]);
    });
    return mask;
  }

  copy() {
    return new Mask(this.x, this.y, this.width, this.height, this.data.slice());
  }

  grownTo(left, top, right, bottom) {
    if (this.width && left >= this.x && top >= this.y && right <= this.x + this.width && bottom <= this.y + this.height) return this;
    const x = this.width ? Math.min(left, this.x) : left;
    const y = this.width ? Math.min(top, this.y) : top;
    const grown = new Mask(
      x,
      y,
      Math.max(right, this.width ? this.x + this.width : right) - x,
      Math.max(bottom, this.width ? this.y + this.height : bottom) - y,
    );
    for (let row = 0; row < this.height; row++) {
      const from = this.data.subarray(row * this.width, (row + 1) * this.width);
      grown.data.set(from, (row + this.y - y) * grown.width + this.x - x);
    }
    return grown;
  }

  // pixels whose centre is within the radius of the way from one point to the other
  painted([x0, y0], [x1, y1], radius, value, scene) {
    const left = Math.max(0, Math.floor(Math.min(x0, x1) - radius));
    const top = Math.max(0, Math.floor(Math.min(y0, y1) - radius));
    const right = Math.min(scene.width, Math.ceil(Math.max(x0, x1) + radius));
    const bottom = Math.min(scene.height, Math.ceil(Math.max(y0, y1) + radius));
    if (right <= left || bottom <= top) return this;
    const mask = value ? this.grownTo(left, top, right, bottom) : this;
    const [dx, dy] = [x1 - x0, y1 - y0];
    const length2 = dx * dx + dy * dy;
    for (let row = Math.max(top, mask.y); row < Math.min(bottom, mask.y + mask.height); row++) {
      for (let col = Math.max(left, mask.x); col < Math.min(right, mask.x + mask.width); col++) {
        const [px, py] = [col + 0.5 - x0, row + 0.5 - y0];
        const t = length2 ? Math.max(0, Math.min(1, (px * dx + py * dy) / length2)) : 0;
        if ((px - t * dx) ** 2 + (py - t * dy) ** 2 <= radius * radius) {
          mask.data[(row - mask.y) * mask.width + col - mask.x] = value;
        }
      }
    }
    return mask;
  }

  get area_px() {
    let n = 0;
    for (const value of this.data) n += value;
    return n;
  }

  // column-major, zeros first, as the server takes it
  get runs() {
    const runs = [];
    let value = 0;
    let n = 0;
    for (let col = 0; col < this.width; col++) {
      for (let row = 0; row < this.height; row++) {
        if (this.data[row * this.width + col] === value) n++;
        else {
          runs.push(n);
          value = 1 - value;
          n = 1;
        }
      }
    }
    runs.push(n);
    return { origin_px: [this.x, this.y], size_px: [this.height, this.width], runs };
  }

  static ofRuns({ origin_px, size_px, runs }) {
    const mask = new Mask(origin_px[0], origin_px[1], size_px[1], size_px[0]);
    let at = 0;
    runs.forEach((n, k) => {
      if (k % 2) {
        for (let i = at; i < at + n; i++) mask.data[(i % mask.height) * mask.width + Math.floor(i / mask.height)] = 1;
      }
      at += n;
    });
    return mask;
  }

  picture([red, green, blue, alpha]) {
    const canvas = new OffscreenCanvas(Math.max(1, this.width), Math.max(1, this.height));
    if (!this.width) return canvas;
    const context = canvas.getContext("2d");
    const image = context.createImageData(this.width, this.height);
    const words = new Uint32Array(image.data.buffer);
    const word = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    for (let k = 0; k < words.length; k++) if (this.data[k]) words[k] = word;
    context.putImageData(image, 0, 0);
    return canvas;
  }
}

export function nearestOnSegment([x, y], [x0, y0], [x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length2 = dx * dx + dy * dy;
  const t = length2 ? Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / length2)) : 0;
  const point = [x0 + t * dx, y0 + t * dy];
  return { point, distance: Math.hypot(x - point[0], y - point[1]) };
}

// one scene's pixels to another's: by the ground when both are in one CRS, else by their share of the picture
export function between(from, to) {
  if (from === to) return (x, y) => [x, y];
  if (from.crs !== to.crs) return (x, y) => [(x * to.width) / from.width, (y * to.height) / from.height];
  const [a, b, c, d, e, f] = from.transform;
  const [p, q, r, s, t, u] = to.transform;
  const determinant = p * t - q * s;
  return (x, y) => {
    const gx = a * x + b * y + c - r;
    const gy = d * x + e * y + f - u;
    return [(t * gx - q * gy) / determinant, (p * gy - s * gx) / determinant];
  };
}
