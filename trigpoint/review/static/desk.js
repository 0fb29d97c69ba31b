// What the page knows: release, scenes, rows of the queue, outlines; and who is told when that changes.

import { get } from "./api.js";
import { Shape } from "./geometry.js";

export const desk = {
  me: { who: null, role: null, fixed: false },
  name: "",
  title: "",
  policies: {},
  axes: [],
  categories: new Map(),
  scenes: new Map(),
  rows: new Map(),
  mark: "",
  shapes: new Map(), // scene id → (item id → Shape)
  details: new Map(), // item id → detail as last told
  current: null, // item id
  scene: null, // scene id that is shown
  chosen: new Set(), // neighbours chosen for merging
};

const bus = new EventTarget();
export const tell = (what, detail) => bus.dispatchEvent(new CustomEvent(what, { detail }));
export const when = (what, action) => bus.addEventListener(what, (event) => action(event.detail));

export async function loadDesk() {
  const [said, queue] = await Promise.all([get("/api/desk"), get("/api/queue")]);
  desk.name = said.name;
  desk.title = said.title;
  desk.note = said.note;
  desk.policies = said.policies;
  desk.axes = said.axes;
  desk.categories = new Map(said.categories.map((category) => [category.id, category]));
  desk.scenes = new Map(said.scenes.map((scene, k) => [scene.scene_id, { ...scene, order: k }]));
  takeRows(queue);
}

export function takeRows({ mark, whole, rows }) {
  if (whole) desk.rows = new Map();
  const changed = [];
  for (const row of rows) {
    if (row.gone) desk.rows.delete(row.id);
    else desk.rows.set(row.id, row);
    changed.push(row);
  }
  if (mark) desk.mark = mark;
  if (changed.length || whole) tell("rows", changed);
  return changed;
}

// what the answer to a decision says of the items it touched
export function takeAnswer({ rows, items }) {
  for (const item of items) {
    if (item) takeDetail(item);
  }
  for (const row of rows.filter((one) => one.gone)) {
    desk.details.delete(row.id);
    desk.shapes.get(row.scene)?.delete(row.id);
  }
  takeRows({ rows });
}

export function takeDetail(detail) {
  const { row } = detail;
  desk.details.set(row.id, detail);
  const shapes = desk.shapes.get(row.scene);
  if (shapes && row.kind === "mask") {
    const isSame = shapes.get(row.id)?.version === detail.outline?.version;
    if (!isSame) {
      if (detail.outline) shapes.set(row.id, new Shape(detail.outline));
      else shapes.delete(row.id);
      tell("shapes", row.scene);
    }
  }
  tell("detail", row.id);
}

export async function loadShapes(sceneId) {
  const outlines = await get(`/api/scenes/${encodeURIComponent(sceneId)}/outlines`);
  const before = desk.shapes.get(sceneId);
  const shapes = new Map();
  for (const outline of outlines) {
    const known = before?.get(outline.id);
    shapes.set(outline.id, known && known.version === outline.version ? known : new Shape(outline));
  }
  desk.shapes.set(sceneId, shapes);
  tell("shapes", sceneId);
}

export async function loadDetail(itemId) {
  const detail = await get(`/api/items/${encodeURIComponent(itemId)}`);
  desk.rows.set(itemId, detail.row);
  takeDetail(detail);
  return detail;
}

export const isMask = (row) => row.kind === "mask";
export const ruleOf = (row) => desk.policies[isMask(row) ? "mask" : "sentence"];

// a policy that asks for nobody releases what nobody rejects, returned or not
export const canReturn = (row) => ruleOf(row).policy !== "none";

const isMe = (who) => who === "anyone" || who === desk.me.role || who === desk.me.who || who.startsWith(`${desk.me.who} (round `);

// whether the policy waits for the person who is signed in
export function waitsForMe(row) {
  if (row.status !== "waiting" && row.status !== "returned") return false;
  return row.waits.length === 0 || row.waits.some(isMe);
}

export function roundOf(row) {
  const mine = row.waits.find((who) => who.startsWith(`${desk.me.who} (round `));
  if (mine) return Number(mine.slice(desk.me.who.length + 8, -1)) || 1;
  const { policy, groups } = ruleOf(row);
  const k = policy === "unanimous" ? groups.findIndex((group) => group.includes(desk.me.who)) : 0;
  return Math.max(0, k) + 1;
}

export function nameOfCategory(ids) {
  return ids.map((id) => desk.categories.get(id)?.name ?? id).join(" ");
}

export const shortId = (id) => id.slice(0, 8);

export function nameOfScene(scene) {
  return `${scene.source} · ${shortId(scene.scene_id.replace(/^s-/, ""))}`;
}

const KIND_NAMES = { mask: "mask", vocabulary: "vocabulary", referring: "referring", reasoning: "reasoning", negative: "negative" };
export const nameOfKind = (kind) => KIND_NAMES[kind] ?? kind;

export const STATUS_NAMES = {
  waiting: "waiting", returned: "returned", approved: "approved", rejected: "rejected", gone: "split or merged away",
};

// colours of categories, the most frequent first; Okabe and Ito, lightened for pictures
const PALETTE = ["#56b4e9", "#e69f00", "#00c88c", "#f0e442", "#ff7a33", "#e58fc0", "#5b9bff", "#dcdcdc"];
const colours = new Map();

export function colourOfCategory(category) {
  const key = category[0];
  if (!colours.has(key)) {
    const counts = new Map();
    for (const row of desk.rows.values()) if (isMask(row)) counts.set(row.category[0], (counts.get(row.category[0]) ?? 0) + 1);
    [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).forEach(([name], k) => {
      if (!colours.has(name)) colours.set(name, PALETTE[k % PALETTE.length]);
    });
    if (!colours.has(key)) colours.set(key, PALETTE[colours.size % PALETTE.length]);
  }
  return colours.get(key);
}

export const STATUS_COLOURS = { waiting: "#6cb6ff", returned: "#ffb020", approved: "#35d08a", rejected: "#ff6b6b", gone: "#9aa4ad" };

// a colour of its own for every instance, the same in every session
export function colourOfInstance(id) {
  let hash = 2166136261;
  for (const character of id) hash = Math.imul(hash ^ character.codePointAt(0), 16777619) >>> 0;
  return `hsl(${hash % 360} ${60 + (hash >> 9) % 30}% ${52 + (hash >> 17) % 14}%)`;
}
