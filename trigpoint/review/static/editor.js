// Editing a mask: vertices, brush, rings, split, a new mask. What is drawn is sent; the server says which pixels it stores, and those are shown.

import { get, post, Refused } from "./api.js";
import { desk, loadDetail, nameOfCategory, tell } from "./desk.js";
import { byId, button, debounced, fill, h, toast } from "./dom.js";
import { pickCategory } from "./dialogs.js";
import { boundsOf, isInside, Mask, nearestOnSegment, pathOf, Shape } from "./geometry.js";
import { decide, draftOf, dropDraft, intentOn, keepDraft } from "./outbox.js";
import { mainPane, redraw, setOverlay } from "./viewer.js";

const REACH_PX = 9; // of the screen
const PIECES = ["#ff5d8f", "#3ddc97", "#4cc9f0", "#ffd166", "#b388ff", "#ff9f1c"];
const TOOLS = [["vertices", "Vertices", "V"], ["brush", "Brush", "B"], ["erase", "Eraser", "E"], ["pen", "Pen", "P"]];

let lastCategory = null;
let lastRadius = 6;

export let editing = null;

export const draftKeyOf = (row) => row.id;
export const newKeyOf = (sceneId) => `new:${sceneId}`;

class Editor {
  // kind: edit, new or split
  constructor(kind, row, sceneId) {
    Object.assign(this, { kind, row, sceneId, scene: desk.scenes.get(sceneId) });
    this.key = row ? draftKeyOf(row) : newKeyOf(sceneId);
    this.category = row ? row.category : lastCategory;
    this.separable = row ? row.separable : true;
    this.version = row?.version ?? null;
    this.previous = row?.newest ?? null;
    this.mask = null; // pixels below, when a brush was used
    this.before = [];
    this.after = [];
    this.line = [];
    this.pen = null; // a ring that is being drawn
    this.chosen = null; // { ring, vertex } or { ring }
    this.tool = kind === "edit" ? "vertices" : "pen";
    this.past = [];
    this.future = [];
    this.result = []; // what would be stored
    this.problem = "";
    this.isAsking = false;
    this.radius = lastRadius;
    this.ask = debounced(() => this.preview(), 90);
    this.asked = 0;
  }

  hides(id) {
    return id === this.row?.id;
  }

  // state, for undoing and drafts

  snapshot() {
    return { mask: this.mask?.runs ?? null, before: this.before, after: this.after.map((ring) => ring.slice()), line: this.line.slice(), pen: this.pen?.slice() ?? null, category: this.category, separable: this.separable };
  }

  restore(said) {
    this.mask = said.mask ? Mask.ofRuns(said.mask) : null;
    Object.assign(this, { before: said.before, after: said.after.map((ring) => ring.slice()), line: said.line.slice(), pen: said.pen, category: said.category, separable: said.separable ?? this.separable });
    this.chosen = null;
    this.painting = null;
    this.changed(false);
  }

  mark() {
    this.past.push(this.snapshot());
    if (this.past.length > 100) this.past.shift();
    this.future = [];
  }

  undo() {
    if (!this.past.length) return;
    this.future.push(this.snapshot());
    this.restore(this.past.pop());
  }

  redo() {
    if (!this.future.length) return;
    this.past.push(this.snapshot());
    this.restore(this.future.pop());
  }

  get isChanged() {
    return this.past.length > 0;
  }

  changed(isNew = true) {
    this.layer = null;
    if (isNew || this.isChanged) keepDraft(this.key, { ...this.snapshot(), start: this.start, kind: this.kind, scene: this.sceneId, item: this.row?.id ?? null, version: this.version, previous: this.previous, tool: this.tool });
    this.ask();
    redraw();
    this.drawBar();
    tell("draft");
  }

  // what the server makes of it

  get drawn() {
    return { mask: this.mask && this.mask.width ? this.mask.runs : null, before: this.before, after: this.after };
  }

  get intent() {
    const said = { who: desk.me.who, role: desk.me.role, scene_id: this.sceneId };
    if (this.kind === "split") return { ...said, action: "split", item_id: this.row.id, version: this.version, previous: this.previous, line: this.line };
    if (this.kind === "new") return { ...said, action: "add", category: this.category ?? [[...desk.categories.keys()][0]], separable: this.separable, drawn: this.drawn };
    return { ...said, action: "edit", item_id: this.row.id, version: this.version, previous: this.previous, drawn: this.drawn };
  }

  get hasSomething() {
    return this.kind === "split" ? this.line.length > 1 : this.after.length > 0 || Boolean(this.mask?.width);
  }

  async preview() {
    this.ask.cancel();
    if (!this.hasSomething || this.pen) {
      if (!this.hasSomething) this.result = [];
      return redraw();
    }
    const number = ++this.asked;
    this.isAsking = true;
    try {
      const pieces = await post("/api/preview", this.intent);
      if (number !== this.asked || editing !== this) return;
      this.result = pieces.map((piece, k) => ({ shape: new Shape({ id: `piece-${k}`, version: "", ...piece }), vertices: piece.vertices }));
      this.problem = "";
      this.isAlone = false;
    } catch (error) {
      if (number !== this.asked) return;
      this.isAlone = !(error instanceof Refused);
      this.problem = this.isAlone ? "the server cannot be reached; what you draw is kept here" : error.message;
      this.result = [];
    }
    this.isAsking = false;
    this.drawBar();
    redraw();
  }

  async settled() {
    this.ask.cancel();
    await this.preview();
    return this.problem === "" && this.result.length > 0;
  }

  // tools

  async use(tool) {
    if (tool === this.tool) return;
    if (this.pen) this.closePen();
    if (tool === "brush" || tool === "erase") {
      if (!this.mask || this.before.length || this.after.length) {
        const has = this.hasSomething || this.kind === "edit";
        if (has && !(await this.settled())) return void toast(this.problem || "There is nothing to brush on yet: draw a ring first.", { kind: "bad" });
        this.mask = has ? Mask.ofRings(this.result[0].shape.rings) : new Mask(0, 0, 0, 0);
        this.before = [];
        this.after = [];
      }
    } else if (tool === "vertices" && this.mask) {
      if (!(await this.settled())) return void toast(this.problem || "Nothing is left of the mask.", { kind: "bad" });
      this.before = this.result[0].vertices;
      this.after = this.before.map((ring) => ring.slice());
      if (!this.mask.width) this.mask = null;
    }
    this.chosen = null;
    this.layer = null;
    this.tool = tool;
    this.drawBar();
    redraw();
  }

  vertexAt(point, scale) {
    let best = null;
    this.after.forEach((ring, r) => ring.forEach(([x, y], v) => {
      const distance = Math.hypot(x - point[0], y - point[1]) * scale;
      if (distance < REACH_PX && (!best || distance < best.distance)) best = { ring: r, vertex: v, distance };
    }));
    return best;
  }

  edgeAt(point, scale) {
    let best = null;
    this.after.forEach((ring, r) => ring.forEach((from, v) => {
      const near = nearestOnSegment(point, from, ring[(v + 1) % ring.length]);
      const distance = near.distance * scale;
      if (distance < REACH_PX && (!best || distance < best.distance)) best = { ring: r, after: v, point: near.point, distance };
    }));
    return best;
  }

  ringAt(point) {
    let best = null;
    this.after.forEach((ring, r) => {
      if (!isInside([ring], ...point)) return;
      const [left, top, right, bottom] = boundsOf([ring]);
      const size = (right - left) * (bottom - top);
      if (!best || size < best.size) best = { ring: r, size };
    });
    return best?.ring ?? null;
  }

  down(point, event, pane) {
    if (event.button !== 0 && event.button !== 2) return false;
    const { scale } = pane.view;
    if (this.tool === "brush" || this.tool === "erase") {
      this.mark();
      const value = (this.tool === "brush") === (event.button === 0) ? 1 : 0;
      this.painting = { value, at: point };
      this.mask = this.mask.copy().painted(point, point, this.radius, value, this.scene);
      this.layer = null;
      redraw();
      return true;
    }
    if (this.tool === "pen") {
      if (event.button === 2) return this.pen ? (this.pen.pop(), redraw(), true) : false;
      if (event.detail > 1) return true; // the second click of a double click
      this.pen ??= [];
      const [start] = this.pen;
      if (this.pen.length > 2 && this.kind !== "split" && Math.hypot(start[0] - point[0], start[1] - point[1]) * scale < REACH_PX) this.closePen();
      else this.pen.push(point);
      this.drawBar();
      redraw();
      return true;
    }
    if (event.button !== 0) return false;
    const vertex = this.vertexAt(point, scale);
    if (vertex) {
      if (event.altKey) {
        this.chosen = vertex;
        this.remove();
        return true;
      }
      this.mark();
      this.chosen = { ring: vertex.ring, vertex: vertex.vertex };
      this.dragging = { isMoved: false };
      redraw();
      return true;
    }
    const edge = this.edgeAt(point, scale);
    if (edge) {
      this.mark();
      this.after[edge.ring].splice(edge.after + 1, 0, edge.point);
      this.chosen = { ring: edge.ring, vertex: edge.after + 1 };
      this.dragging = { isMoved: true };
      redraw();
      return true;
    }
    if (this.chosen && this.chosen.vertex === undefined && isInside([this.after[this.chosen.ring]], ...point)) {
      this.mark();
      this.dragging = { isMoved: false, from: point };
      return true;
    }
    this.chosen = null;
    redraw();
    return false;
  }

  move(point, event, pane) {
    pane.dirty();
    if (this.painting) {
      this.mask = this.mask.painted(this.painting.at, point, this.radius, this.painting.value, this.scene);
      this.painting.at = point;
      this.layer = null;
    } else if (this.dragging) {
      this.dragging.isMoved = true;
      const ring = this.after[this.chosen.ring];
      if (this.chosen.vertex === undefined) {
        const [dx, dy] = [point[0] - this.dragging.from[0], point[1] - this.dragging.from[1]];
        this.after[this.chosen.ring] = ring.map(([x, y]) => [x + dx, y + dy]);
        this.dragging.from = point;
      } else ring[this.chosen.vertex] = [Math.round(point[0] * 4) / 4, Math.round(point[1] * 4) / 4];
      this.ask();
    }
  }

  up() {
    if (this.painting) {
      this.painting = null;
      this.changed();
    } else if (this.dragging) {
      const { isMoved } = this.dragging;
      this.dragging = null;
      if (isMoved) this.changed();
      else this.past.pop();
    }
  }

  double(point, _event, pane) {
    if (this.tool === "pen" && this.pen) return this.closePen();
    if (this.tool !== "vertices" || this.vertexAt(point, pane.view.scale)) return;
    const ring = this.ringAt(point);
    this.chosen = ring === null ? null : { ring };
    this.drawBar();
    redraw();
  }

  hoverAt(point, _event, pane) {
    const { scale } = pane.view;
    this.over = this.tool === "vertices" ? (this.vertexAt(point, scale) ?? this.edgeAt(point, scale)) : null;
    pane.canvas.style.cursor = this.tool === "vertices" ? (this.over ? "pointer" : "") : this.tool === "pen" ? "crosshair" : "none";
    pane.dirty();
  }

  closePen() {
    const ring = this.pen ?? [];
    this.pen = null;
    if (ring.length >= (this.kind === "split" ? 2 : 3)) {
      this.mark();
      if (this.kind === "split") this.line = ring;
      else this.after.push(ring);
      this.changed();
      if (this.kind !== "split") this.tool = "vertices";
    }
    this.drawBar();
    redraw();
  }

  remove() {
    if (!this.chosen || this.tool !== "vertices") return;
    this.mark();
    const ring = this.after[this.chosen.ring];
    if (this.chosen.vertex === undefined || ring.length <= 3) this.after.splice(this.chosen.ring, 1);
    else ring.splice(this.chosen.vertex, 1);
    this.chosen = null;
    this.changed();
  }

  // returns whether the key was for the editor
  pressed(event) {
    const { key } = event;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && key.toLowerCase() === "z") event.shiftKey ? this.redo() : this.undo();
    else if (isCommand && key.toLowerCase() === "y") this.redo();
    else if (isCommand || event.altKey) return false;
    else if (key === "Escape") {
      if (this.pen) {
        this.pen = null;
        redraw();
        this.drawBar();
      } else if (this.chosen) {
        this.chosen = null;
        redraw();
      } else this.giveUp();
    } else if (key === "Enter") this.pen ? this.closePen() : this.save();
    else if (key === "Backspace" && this.pen) {
      this.pen.pop();
      redraw();
    } else if (key === "Delete" || key === "Backspace") this.remove();
    else if (key === "[" || key === "]") this.resize(key === "[" ? 1 / 1.25 : 1.25);
    else if (key === "c" && this.kind !== "split") this.chooseCategory();
    else if (key === "t") this.tellApart();
    else if (this.kind !== "split" && TOOLS.some(([, , letter]) => letter.toLowerCase() === key)) this.use(TOOLS.find(([, , letter]) => letter.toLowerCase() === key)[0]);
    else return ["a", "x", "r", "j", "k", "m", "s", "n", "N", "u", "w", "e", "d", "ArrowDown", "ArrowUp"].includes(key);
    return true;
  }

  resize(factor) {
    this.radius = lastRadius = Math.max(0.6, Math.min(400, this.radius * factor));
    this.drawBar();
    redraw();
  }

  async chooseCategory() {
    const chosen = await pickCategory(this.category ?? []);
    if (!chosen) return false;
    this.mark();
    this.category = lastCategory = chosen;
    this.changed();
    return true;
  }

  tellApart() {
    if (this.kind === "split") return;
    this.mark();
    this.separable = !this.separable;
    this.changed();
  }

  // ending

  async save() {
    if (this.pen) this.closePen();
    if (this.kind === "new" && !this.category && !(await this.chooseCategory())) return;
    const isRenamed = this.kind === "edit" && this.category.join() !== this.row.category.join();
    const isMarked = this.kind === "edit" && this.separable !== this.row.separable;
    const keepsPixels = (isRenamed || isMarked) && !this.isRedrawn;
    if (this.kind === "split" && !this.line.length) return void toast("Draw a line across the mask first.", { kind: "bad" });
    if (!keepsPixels && !(await this.settled()) && !this.isAlone) return void toast(this.problem || "Draw something first.", { kind: "bad" });
    const { intent } = this;
    if (this.kind === "edit") {
      if (keepsPixels) delete intent.drawn;
      if (isRenamed) intent.category = this.category;
      if (isMarked) intent.separable = this.separable;
    }
    const label = this.row?.label ?? nameOfCategory(this.category ?? []);
    const [stored] = this.result;
    const isShown = stored && this.kind !== "split" && !keepsPixels;
    const result = isShown ? Mask.ofRings(stored.shape.rings).runs : null;
    if (isShown && this.kind === "edit") desk.shapes.get(this.sceneId)?.set(this.row.id, Object.assign(stored.shape, { id: this.row.id }));
    dropDraft(this.key);
    closeEditor();
    tell("shapes", this.sceneId);
    decide({ ...intent, round: this.row ? intentOn(this.row, "edit").round : 1 }, result, label);
    tell("edited", { kind: this.kind, row: this.row });
  }

  get isRedrawn() {
    return this.mask !== null || JSON.stringify(this.before) !== JSON.stringify(this.after);
  }

  giveUp() {
    const { key, kind, row } = this;
    const draft = draftOf(key);
    dropDraft(key);
    closeEditor();
    tell("draft");
    if (draft && this.isChanged) {
      toast("The edit is given up.", { actions: [["Bring it back", () => { keepDraft(key, draft); tell("resume", { kind, row, scene: this.sceneId }); }]] });
    }
  }

  // drawing

  draw(context, pane) {
    const { scale } = pane.view;
    const line = (px) => px / scale;
    context.lineJoin = "round";
    if (this.mask && (this.tool === "brush" || this.tool === "erase")) {
      this.layer ??= this.mask.picture([255, 70, 160, 120]);
      context.imageSmoothingEnabled = false;
      if (this.mask.width) context.drawImage(this.layer, this.mask.x, this.mask.y);
    } else {
      this.result.forEach(({ shape }, k) => {
        const colour = PIECES[k % PIECES.length];
        context.globalAlpha = 0.3;
        context.fillStyle = colour;
        context.fill(shape.path, "evenodd");
        context.globalAlpha = 0.9;
        context.strokeStyle = colour;
        context.lineWidth = line(1);
        context.stroke(shape.path);
        context.globalAlpha = 1;
      });
    }
    if (this.kind === "split" && !this.result.length) {
      const shape = desk.shapes.get(this.sceneId)?.get(this.row.id);
      if (shape) {
        context.strokeStyle = "#ffe100";
        context.lineWidth = line(2);
        context.stroke(shape.path);
      }
    }
    if (this.tool === "vertices") this.drawVertices(context, pane, line);
    const path = this.pen ?? (this.kind === "split" ? this.line : null);
    if (path?.length) this.drawPen(context, pane, line, path);
    if ((this.tool === "brush" || this.tool === "erase") && pane.pointer) {
      for (const [colour, width] of [["rgba(0,0,0,0.8)", 3], [this.tool === "brush" ? "#ff46a0" : "#fff", 1.4]]) {
        context.strokeStyle = colour;
        context.lineWidth = line(width);
        context.beginPath();
        context.arc(...pane.pointer, this.radius, 0, 2 * Math.PI);
        context.stroke();
      }
    }
  }

  drawVertices(context, pane, line) {
    const path = pathOf(this.after);
    context.strokeStyle = "rgba(0,0,0,0.75)";
    context.lineWidth = line(4);
    context.stroke(path);
    context.strokeStyle = "#ffe100";
    context.lineWidth = line(1.8);
    context.stroke(path);
    if (this.chosen && this.chosen.vertex === undefined) {
      context.strokeStyle = "#00e5ff";
      context.lineWidth = line(3);
      context.stroke(pathOf([this.after[this.chosen.ring]]));
    }
    const size = line(7);
    const [left, top] = pane.toScene([0, 0]);
    const [right, bottom] = pane.toScene([pane.width, pane.height]);
    let n = 0;
    this.after.forEach((ring, r) => ring.forEach(([x, y], v) => {
      if (x < left || x > right || y < top || y > bottom || n++ > 4000) return;
      const isChosen = this.chosen?.ring === r && (this.chosen.vertex === undefined || this.chosen.vertex === v);
      const isOver = this.over?.ring === r && this.over.vertex === v;
      const side = isChosen || isOver ? 1.35 * size : size;
      context.fillStyle = isChosen ? "#00e5ff" : "#fff";
      context.strokeStyle = "#000";
      context.lineWidth = line(1);
      context.fillRect(x - side / 2, y - side / 2, side, side);
      context.strokeRect(x - side / 2, y - side / 2, side, side);
    }));
    if (this.over && this.over.vertex === undefined) {
      context.fillStyle = "rgba(0,229,255,0.9)";
      context.beginPath();
      context.arc(...this.over.point, line(5), 0, 2 * Math.PI);
      context.fill();
    }
  }

  drawPen(context, pane, line, path) {
    const isDrawing = this.pen !== null;
    for (const [colour, width] of [["rgba(0,0,0,0.75)", 4.5], ["#00e5ff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = line(width);
      context.beginPath();
      path.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      if (isDrawing && pane.pointer) context.lineTo(...pane.pointer);
      context.stroke();
    }
    context.fillStyle = "#fff";
    for (const [x, y] of path) {
      context.beginPath();
      context.arc(x, y, line(4), 0, 2 * Math.PI);
      context.fill();
    }
  }

  get says() {
    if (this.problem) return this.problem;
    if (this.kind === "split") {
      if (this.pen) return "Click on; Enter or a double click ends the line";
      return this.result.length > 1 ? `${this.result.length} pieces: ${this.result.map(({ shape }) => shape.area_px.toLocaleString("en")).join(" + ")} px` : "Draw a line across the mask, from outside to outside";
    }
    if (this.pen) return "Click on; Enter, a double click or the first point closes the ring";
    if (this.tool === "pen") return this.kind === "new" && !this.after.length ? "Click around the object" : "A ring outside adds a part, a ring inside cuts a hole";
    if (!this.result.length) return this.tool === "vertices" ? "Drag a vertex, or an edge for a new one" : "Paint; the right button does the opposite";
    const area = this.result[0].shape.area_px;
    const before = desk.shapes.get(this.sceneId)?.get(this.row?.id)?.area_px;
    const change = before && this.isChanged ? ` (${area >= before ? "+" : "−"}${Math.abs(area - before).toLocaleString("en")})` : "";
    return `${area.toLocaleString("en")} px${change} will be stored${this.separable ? "" : "; cannot be told apart"}`;
  }

  drawBar() {
    const bar = byId("editbar");
    bar.hidden = false;
    const isBrush = this.tool === "brush" || this.tool === "erase";
    const size = h("input", { type: "range", min: "0.6", max: "60", step: "0.2", "aria-label": "Brush size", on: { input: () => { this.radius = lastRadius = Number(size.value); label.textContent = `⌀ ${(2 * this.radius).toFixed(0)} px`; redraw(); } } });
    size.value = String(this.radius);
    const label = h("span", { class: "quiet-text num" }, `⌀ ${(2 * this.radius).toFixed(0)} px`);
    const title = { edit: "Edit", new: "New mask", split: "Split" }[this.kind];
    const first = h("div", { class: "row" },
      h("b", {}, title),
      this.kind === "split" ? null : h("div", { class: "group" }, TOOLS.map(([tool, name, key]) => button(name, key, () => this.use(tool), { "aria-pressed": String(this.tool === tool) }))),
      this.kind === "split" && this.row && desk.shapes.get(this.sceneId)?.get(this.row.id)?.rings.length > 1 ? button("Into its parts", null, () => this.splitParts()) : null,
      h("div", { class: "group" }, button("↶", null, () => this.undo(), { disabled: !this.past.length, title: "Undo (Ctrl+Z)", "aria-label": "Undo" }), button("↷", null, () => this.redo(), { disabled: !this.future.length, title: "Redo (Ctrl+Y)", "aria-label": "Redo" })),
      h("span", { class: "grow" }),
      this.kind === "split" ? null : button(h("span", { class: "name" }, this.category ? nameOfCategory(this.category) : "Category …"), "C", () => this.chooseCategory(), { class: "category", title: "Change the category" }));
    const second = h("div", { class: "row" },
      this.tool === "vertices" && this.chosen ? button(this.chosen.vertex === undefined ? "Delete ring" : "Delete vertex", "Del", () => this.remove()) : null,
      isBrush ? h("div", { class: "group brush" }, size, label) : null,
      h("span", { class: `says grow ${this.problem ? "wrong" : ""}`, "aria-live": "polite" }, this.says),
      button("Cancel", "Esc", () => this.giveUp()),
      button("Save", "Enter", () => this.save(), { class: "primary", disabled: this.kind === "split" ? this.result.length < 2 : !this.hasSomething && !this.isChanged }));
    fill(bar, first, second);
  }

  splitParts() {
    const intent = { ...this.intent, line: [] };
    dropDraft(this.key);
    closeEditor();
    decide({ ...intent, round: intentOn(this.row, "split").round }, null, this.row.label);
    tell("edited", { kind: "split", row: this.row });
  }
}

export function closeEditor() {
  if (!editing) return;
  editing.ask.cancel();
  editing = null;
  byId("editbar").hidden = true;
  setOverlay(null);
  tell("editing");
}

function begin(editor) {
  closeEditor();
  editing = editor;
  editor.start ??= editor.snapshot();
  setOverlay(editor);
  editor.drawBar();
  mainPane().canvas.focus({ preventScroll: true });
  tell("editing");
}

// what was being edited when the page was left
function resume(editor, draft) {
  if (!draft) return false;
  editor.version = draft.version;
  editor.previous = draft.previous;
  editor.start = draft.start;
  editor.past = [draft.start];
  editor.tool = draft.tool === "pen" && !draft.pen ? "vertices" : draft.tool;
  editor.restore(draft);
  return true;
}

export async function editMask(row, tool = "vertices") {
  const editor = new Editor("edit", row, row.scene);
  const draft = draftOf(editor.key);
  const isDraft = draft?.kind === "edit";
  if (!isDraft) {
    const said = await get(`/api/items/${encodeURIComponent(row.id)}/vertices`);
    if (desk.current !== row.id) return;
    if (said.newest !== row.newest) {
      await loadDetail(row.id);
      editor.row = desk.rows.get(row.id);
      editor.category = editor.row.category;
      editor.separable = editor.row.separable;
    }
    editor.version = said.version;
    editor.previous = said.newest;
    editor.before = said.rings;
    editor.after = said.rings.map((ring) => ring.slice());
  }
  begin(editor);
  if (isDraft && resume(editor, draft)) {
    const when = new Date(draft.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    toast(`Your edit from ${when} is back; it was not saved.`);
    if (draft.version !== row.version) toast("Somebody changed this mask since. Save to be asked what to do.", { kind: "bad" });
  } else if (tool !== "vertices") {
    await editor.preview();
    await editor.use(tool);
  } else editor.preview();
}

export function drawNew(sceneId) {
  const editor = new Editor("new", null, sceneId);
  begin(editor);
  resume(editor, draftOf(editor.key));
}

export function splitMask(row) {
  const editor = new Editor("split", row, row.scene);
  begin(editor);
  const draft = draftOf(editor.key);
  if (draft?.kind === "split") resume(editor, draft);
}

