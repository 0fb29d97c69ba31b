// Pictures of scenes with outlines: pan, zoom, colours, what the pointer is on; one pane, or two dates side by side.

import { colourOfCategory, colourOfInstance, desk, nameOfCategory, nameOfScene, STATUS_COLOURS, STATUS_NAMES, tell, when } from "./desk.js";
import { byId, button, debounced, fill, h } from "./dom.js";
import { between } from "./geometry.js";

const MAX_SCALE = 40;
let edition = 0; // of everything but the views: what was drawn for an earlier one is drawn anew
const pictures = new Map();

export const look = { outlines: 0, filled: false, colours: "status", follows: false }; // outlines 0: all, 1: the item's, 2: none

function pictureOf(sceneId) {
  if (!pictures.has(sceneId)) {
    const image = new Image();
    image.decoding = "async";
    const entry = { levels: [], isBroken: false };
    image.addEventListener("load", async () => {
      // decoded once, and halved while it is large: drawing small is then quick
      let level = await createImageBitmap(image);
      entry.levels = [level];
      panes.forEach((pane) => pane.changed());
      while (Math.max(level.width, level.height) > 700) {
        level = await createImageBitmap(level, { resizeWidth: Math.ceil(level.width / 2), resizeHeight: Math.ceil(level.height / 2), resizeQuality: "medium" });
        entry.levels.push(level);
      }
    });
    image.addEventListener("error", () => { entry.isBroken = true; panes.forEach((pane) => pane.changed()); });
    image.src = `/api/scenes/${encodeURIComponent(sceneId)}/picture`;
    pictures.set(sceneId, entry);
    while (pictures.size > 12) pictures.delete(pictures.keys().next().value);
  }
  return pictures.get(sceneId);
}

export const warmPicture = pictureOf;

// what is drawn bright: the current mask, or all that a sentence is about
export function focused() {
  const row = desk.rows.get(desk.current);
  if (!row) return new Set();
  if (row.kind === "mask") return new Set([row.id, ...desk.chosen]);
  return new Set(desk.details.get(row.id)?.about?.instances ?? []);
}

class Pane {
  constructor(sceneId) {
    this.canvas = h("canvas", { tabindex: "0", "aria-label": "Picture of the scene with outlines" });
    this.label = h("div", { class: "pane-label" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.scale_bar = h("div", { class: "scale-bar" });
    this.note = h("div", { class: "pane-note", hidden: true });
    this.legend = h("div", { class: "legend" });
    this.element = h("div", { class: "pane" }, this.canvas, this.label, this.scale_bar, this.legend, this.note, this.tip);
    this.view = { x: 0, y: 0, scale: 1 };
    this.isFitted = true;
    this.overlay = null; // the editor, when it works here
    this.space = false;
    this.show(sceneId);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.listen();
  }

  close() {
    this.observer.disconnect();
    this.element.remove();
  }

  show(sceneId) {
    this.scene = desk.scenes.get(sceneId);
    this.picture = pictureOf(sceneId);
    this.hover = null;
    fill(this.label, [nameOfScene(this.scene), this.scene.acquired].filter(Boolean).join(" · "));
    this.fit();
  }

  resize() {
    const { clientWidth, clientHeight } = this.element;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    this.width = clientWidth;
    this.height = clientHeight;
    this.tip.hidden = true;
    if (this.isFitted) this.fit();
    this.dirty();
  }

  fit() {
    this.isFitted = true;
    this.fitBox([0, 0, this.scene.width, this.scene.height], 14);
  }

  fitBox([left, top, right, bottom], margin, most = MAX_SCALE) {
    if (!this.width) return;
    const scale = Math.min((this.width - 2 * margin) / (right - left), (this.height - 2 * margin) / (bottom - top), most);
    this.view = { scale, x: this.width / 2 - (scale * (left + right)) / 2, y: this.height / 2 - (scale * (top + bottom)) / 2 };
    this.moved();
  }

  zoomTo(ids) {
    const shapes = [...ids].map((id) => desk.shapes.get(this.scene.scene_id)?.get(id)).filter(Boolean);
    if (!shapes.length) return false;
    const box = [Math.min(...shapes.map((s) => s.bounds[0])), Math.min(...shapes.map((s) => s.bounds[1])), Math.max(...shapes.map((s) => s.bounds[2])), Math.max(...shapes.map((s) => s.bounds[3]))];
    const pad = Math.max(12, 0.35 * Math.max(box[2] - box[0], box[3] - box[1]));
    this.isFitted = false;
    this.fitBox([box[0] - pad, box[1] - pad, box[2] + pad, box[3] + pad], 8, 10);
    return true;
  }

  // move the item into sight without changing more than needed
  ensureSeen(ids) {
    const shapes = [...ids].map((id) => desk.shapes.get(this.scene.scene_id)?.get(id)).filter(Boolean);
    if (!shapes.length || !this.width) return;
    const [left, top] = this.toScreen([Math.min(...shapes.map((s) => s.bounds[0])), Math.min(...shapes.map((s) => s.bounds[1]))]);
    const [right, bottom] = this.toScreen([Math.max(...shapes.map((s) => s.bounds[2])), Math.max(...shapes.map((s) => s.bounds[3]))]);
    if (left >= 0 && top >= 0 && right <= this.width && bottom <= this.height) return;
    if (right - left > this.width || bottom - top > this.height) return void this.zoomTo(ids);
    this.isFitted = false;
    this.view.x += this.width / 2 - (left + right) / 2;
    this.view.y += this.height / 2 - (top + bottom) / 2;
    this.moved();
  }

  zoom(factor, at = [this.width / 2, this.height / 2]) {
    const scale = Math.max(0.02, Math.min(MAX_SCALE, this.view.scale * factor));
    const k = scale / this.view.scale;
    this.view = { scale, x: at[0] - k * (at[0] - this.view.x), y: at[1] - k * (at[1] - this.view.y) };
    this.isFitted = false;
    this.moved();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.isFitted = false;
    this.moved();
  }

  moved() {
    this.dirty();
    if (!isFollowing) follow(this);
  }

  toScene([x, y]) {
    return [(x - this.view.x) / this.view.scale, (y - this.view.y) / this.view.scale];
  }

  toScreen([x, y]) {
    return [x * this.view.scale + this.view.x, y * this.view.scale + this.view.y];
  }

  dirty() {
    if (this.isDirty) return;
    this.isDirty = true;
    requestAnimationFrame(() => {
      this.isDirty = false;
      if (this.width) this.draw();
    });
  }

  changed() {
    edition++;
    this.dirty();
  }

  // the picture and everything that is not bright is drawn once for a view, and kept
  draw() {
    const context = this.canvas.getContext("2d", { alpha: false });
    const ratio = this.canvas.width / this.width;
    const { x, y, scale } = this.view;
    const isDimmed = focused().size > 0;
    const key = [edition, x, y, scale, this.canvas.width, this.canvas.height, this.scene.scene_id, look.outlines, look.filled, look.colours, isDimmed, this.overlay !== null].join();
    if (this.layerKey !== key) {
      this.layerKey = key;
      if (this.layer?.width !== this.canvas.width || this.layer.height !== this.canvas.height) this.layer = new OffscreenCanvas(this.canvas.width, this.canvas.height);
      this.drawLayer(this.layer.getContext("2d", { alpha: false }), ratio, isDimmed);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.layer, 0, 0);
    context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
    this.drawBright(context, scale);
    this.drawScaleBar();
    this.overlay?.draw(context, this);
  }

  drawLayer(context, ratio, isDimmed) {
    const { x, y, scale } = this.view;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = "#14181b";
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
    const { levels, isBroken } = this.picture;
    const isLoaded = levels.length > 0;
    if (isLoaded) {
      context.imageSmoothingEnabled = scale < 2;
      const wanted = Math.max(0, Math.floor(Math.log2(1 / (ratio * scale))));
      context.drawImage(levels[Math.min(wanted, levels.length - 1)], 0, 0, this.scene.width, this.scene.height);
      if (!this.isPainted && desk.shapes.has(this.scene.scene_id)) {
        this.isPainted = true;
        performance.mark("painted");
      }
    } else {
      context.fillStyle = "#20262b";
      context.fillRect(0, 0, this.scene.width, this.scene.height);
    }
    this.note.hidden = isLoaded;
    if (!isLoaded) fill(this.note, isBroken ? "The picture could not be loaded. Reload the page to try again." : "Loading the picture …");
    this.drawOutlines(context, scale, isDimmed);
  }

  drawOutlines(context, scale, isDimmed) {
    const shapes = desk.shapes.get(this.scene.scene_id);
    if (!shapes) return;
    const step = 2 ** Math.floor(Math.log2(1.5 / scale));
    if (look.filled) {
      context.globalAlpha = 0.5;
      for (const shape of [...shapes.values()].sort((a, b) => b.area_px - a.area_px)) {
        if (desk.rows.get(shape.id)?.status === "rejected") continue;
        context.fillStyle = colourOfInstance(shape.id);
        context.fill(shape.coarse(step), "evenodd");
      }
      context.globalAlpha = 1;
    }
    const line = (px) => px / scale;
    if (look.outlines === 0) {
      const groups = new Map();
      const halo = new Path2D();
      for (const shape of shapes.values()) {
        const row = desk.rows.get(shape.id);
        if (!row) continue;
        const colour = look.colours === "category" ? colourOfCategory(row.category) : STATUS_COLOURS[row.status];
        if (!groups.has(colour)) groups.set(colour, new Path2D());
        groups.get(colour).addPath(shape.coarse(step));
        halo.addPath(shape.coarse(step));
      }
      context.globalAlpha = isDimmed ? 0.45 : 0.6;
      context.strokeStyle = "#000";
      context.lineWidth = line(2.6);
      context.stroke(halo);
      context.globalAlpha = this.overlay ? 0.5 : isDimmed ? 0.8 : 1;
      context.lineWidth = line(1.3);
      for (const [colour, path] of groups) {
        context.strokeStyle = colour;
        context.stroke(path);
      }
    }
    context.globalAlpha = 1;
  }

  drawBright(context, scale) {
    const shapes = desk.shapes.get(this.scene.scene_id);
    if (!shapes || look.outlines === 2) return;
    const bright = focused();
    const line = (px) => px / scale;
    context.lineJoin = "round";
    for (const id of bright) {
      const shape = shapes.get(id);
      if (!shape || this.overlay?.hides(id)) continue;
      const isChosen = desk.chosen.has(id) && id !== desk.current;
      context.globalAlpha = 0.16;
      context.fillStyle = isChosen ? "#c792ff" : "#ffe100";
      context.fill(shape.path, "evenodd");
      context.globalAlpha = 1;
      context.strokeStyle = "rgba(0,0,0,0.85)";
      context.lineWidth = line(5);
      context.stroke(shape.path);
      context.strokeStyle = isChosen ? "#c792ff" : "#ffe100";
      context.lineWidth = line(2.2);
      context.stroke(shape.path);
    }
    const over = this.hover && !bright.has(this.hover) ? shapes.get(this.hover) : null;
    if (over && !this.overlay) {
      context.strokeStyle = "#fff";
      context.lineWidth = line(2.2);
      context.stroke(over.path);
    }
  }

  drawScaleBar() {
    const metres = this.scene.gsd_m / this.view.scale; // per pixel of the screen
    const goal = metres * 110;
    const power = 10 ** Math.floor(Math.log10(goal));
    const length = [5, 2, 1].map((k) => k * power).find((one) => one <= goal) ?? power;
    this.scale_bar.style.width = `${length / metres}px`;
    this.scale_bar.textContent = length >= 1000 ? `${length / 1000} km` : length >= 1 ? `${length} m` : `${Math.round(length * 100)} cm`;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  // everything under a point, the smallest first
  under(point) {
    const shapes = desk.shapes.get(this.scene.scene_id);
    if (!shapes || look.outlines === 2) return [];
    return [...shapes.values()].filter((shape) => shape.holds(...point)).sort((a, b) => a.area_px - b.area_px).map((shape) => shape.id);
  }

  listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const step = event.deltaMode === 1 ? 16 * event.deltaY : event.deltaY;
      this.zoom(Math.exp(-step * (event.ctrlKey ? 0.01 : 0.0016)), this.at(event));
    }, { passive: false });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("pointerdown", (event) => {
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      const at = this.at(event);
      const isPan = event.button === 1 || this.space;
      if (!isPan && this.overlay?.down(this.toScene(at), event, this)) {
        drag = { isEditor: true };
        return;
      }
      drag = { at, isMoved: false, shift: event.shiftKey };
    });
    canvas.addEventListener("pointermove", (event) => {
      const at = this.at(event);
      this.pointer = this.toScene(at);
      if (drag?.isEditor) this.overlay?.move(this.pointer, event, this);
      else if (drag) {
        if (drag.isMoved || Math.hypot(at[0] - drag.at[0], at[1] - drag.at[1]) > 4) {
          this.pan(at[0] - drag.at[0], at[1] - drag.at[1]);
          drag.at = at;
          drag.isMoved = true;
          canvas.style.cursor = "grabbing";
        }
      } else if (this.overlay) this.overlay.hoverAt(this.pointer, event, this);
      else this.hoverAt(at);
    });
    const up = (event) => {
      if (drag?.isEditor) this.overlay?.up(this.toScene(this.at(event)), event, this);
      else if (drag && !drag.isMoved && event.type === "pointerup" && !this.overlay) this.click(this.toScene(drag.at), drag.shift);
      drag = null;
      canvas.style.cursor = "";
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("dblclick", (event) => this.overlay?.double(this.toScene(this.at(event)), event, this));
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.hoverAt(null);
      if (this.overlay) this.dirty();
    });
  }

  hoverAt(at) {
    const id = at ? this.under(this.toScene(at))[0] ?? null : null;
    if (id !== this.hover) {
      this.hover = id;
      this.dirty();
    }
    const row = desk.rows.get(id);
    this.tip.hidden = !row || !at;
    if (row && at) {
      fill(this.tip, h("b", {}, row.label), h("span", {}, `${STATUS_NAMES[row.status]} · ${desk.shapes.get(row.scene)?.get(id)?.area_px.toLocaleString("en")} px`));
      this.tip.style.transform = `translate(${Math.min(at[0] + 14, this.width - 190)}px, ${Math.min(at[1] + 16, this.height - 44)}px)`;
    }
    this.canvas.style.cursor = row ? "pointer" : "";
  }

  click(point, isChoosing) {
    const ids = this.under(point);
    if (!ids.length) return;
    if (isChoosing) {
      const id = ids.find((one) => one !== desk.current);
      if (!id) return;
      if (!desk.chosen.delete(id)) desk.chosen.add(id);
      tell("chosen");
      this.dirty();
      return;
    }
    const k = ids.indexOf(desk.current);
    tell("open-item", ids[(k + 1) % ids.length]);
  }
}

let panes = [];
let isFollowing = false;

function follow(leader) {
  if (panes.length < 2) return;
  isFollowing = true;
  for (const pane of panes) {
    if (pane === leader || !pane.width) continue;
    const map = between(leader.scene, pane.scene);
    const [x0, y0] = map(...leader.toScene([0, 0]));
    const [x1] = map(...leader.toScene([leader.width, 0]));
    const scale = leader.width / Math.abs(x1 - x0);
    pane.view = { scale, x: -x0 * scale, y: -y0 * scale };
    pane.isFitted = false;
    pane.dirty();
  }
  isFollowing = false;
}

export const mainPane = () => panes[0];
export const views = () => panes.map(({ view }) => [view.x, view.y, view.scale]);

export function showScene(sceneId) {
  if (panes.length === 2 && panes[1].scene.scene_id === sceneId) leaveDates();
  if (panes[0]) {
    if (panes[0].scene.scene_id !== sceneId) {
      leaveDates();
      panes[0].show(sceneId);
    }
  } else {
    panes = [new Pane(sceneId)];
    fill(byId("panes"), panes[0].element);
  }
  drawToolbar();
}

const othersOfSeries = () => {
  const scene = panes[0]?.scene;
  if (!scene?.series_id) return [];
  return [...desk.scenes.values()].filter((one) => one.series_id === scene.series_id && one !== scene).sort((a, b) => (a.acquired ?? "").localeCompare(b.acquired ?? ""));
};

function leaveDates() {
  if (panes.length === 2) {
    panes[1].close();
    panes = [panes[0]];
  }
}

export function toggleDates() {
  const others = othersOfSeries();
  if (panes.length === 2) leaveDates();
  else if (others.length) {
    const pane = new Pane(others[0].scene_id);
    panes.push(pane);
    byId("panes").append(pane.element);
    tell("need-shapes", others[0].scene_id);
    requestAnimationFrame(() => follow(panes[0]));
  } else return false;
  drawToolbar();
  return true;
}

export function redraw() {
  for (const pane of panes) pane.dirty();
}

function redrawAll() {
  for (const pane of panes) pane.changed();
}

export function setOverlay(overlay) {
  if (panes[0]) {
    panes[0].overlay = overlay;
    panes[0].tip.hidden = true;
    panes[0].canvas.style.cursor = "";
  }
  redraw();
}

export function drawToolbar() {
  const pane = panes[0];
  if (!pane) return;
  const others = othersOfSeries();
  const toggle = (label, key, isOn, action, title) => button(label, key, () => { action(); drawToolbar(); redraw(); }, { "aria-pressed": String(isOn), title });
  const second = panes[1];
  const dates = second && others.length > 1 ? h("select", { "aria-label": "Other date", on: { change: (event) => { second.show(event.target.value); tell("need-shapes", event.target.value); follow(panes[0]); } } },
    others.map((scene) => h("option", { value: scene.scene_id, selected: scene === second.scene }, scene.acquired ?? scene.scene_id))) : null;
  fill(byId("toolbar"),
    h("div", { class: "group" }, button("Fit", "F", () => pane.fit()), button("Item", "Z", () => pane.zoomTo(focused()), { title: "Zoom to the item; Shift+Z: to every one that is opened", "aria-pressed": look.follows ? "true" : null }), button("−", null, () => pane.zoom(1 / 1.4), { "aria-label": "Zoom out" }), button("+", null, () => pane.zoom(1.4), { "aria-label": "Zoom in" })),
    h("div", { class: "group" },
      toggle(["Outlines", "Item only", "No outlines"][look.outlines], "O", look.outlines < 2, () => { look.outlines = (look.outlines + 1) % 3; }, "Outlines: all, the item's, none"),
      toggle("Fill", "I", look.filled, () => { look.filled = !look.filled; }, "Every instance in a colour of its own"),
      toggle(look.colours === "status" ? "By status" : "By category", "Y", false, () => { look.colours = look.colours === "status" ? "category" : "status"; }, "What the colours of outlines say"),
      others.length || second ? toggle("Dates", "D", Boolean(second), toggleDates, "Two dates side by side") : null, dates));
  fill(pane.legend, legend(pane));
}

function legend(pane) {
  const rows = [...desk.rows.values()].filter((row) => row.scene === pane.scene.scene_id && row.kind === "mask" && row.status !== "gone");
  const counts = new Map();
  for (const row of rows) {
    const [name, colour] = look.colours === "status" ? [STATUS_NAMES[row.status], STATUS_COLOURS[row.status]] : [nameOfCategory([row.category[0]]), colourOfCategory(row.category)];
    counts.set(name, [(counts.get(name)?.[0] ?? 0) + 1, colour]);
  }
  return [...counts].sort((a, b) => b[1][0] - a[1][0]).slice(0, 5).map(([name, [n, colour]]) => h("span", { class: "key" }, h("i", { style: { background: colour } }), `${name} ${n}`));
}

const recoloured = debounced(() => {
  redrawAll();
  drawToolbar();
}, 80);
when("rows", (rows) => {
  if (rows.some((row) => panes.some((pane) => pane.scene.scene_id === row.scene))) recoloured();
});
when("shapes", redrawAll);
when("detail", redraw);
when("chosen", redraw);
