// The page: opens the session, wires the parts together, and turns keys into deeds.

import { get, openSession, Refused, Unreachable } from "./api.js";
import { canReturn, desk, isMask, loadDesk, loadDetail, loadShapes, takeRows, tell, when } from "./desk.js";
import { askName, askToken, confirmIt, isOpen, pickCategory, showKeys, showLink, showUnsent } from "./dialogs.js";
import { byId, button, fill, h, plural, toast } from "./dom.js";
import { closeEditor, draftKeyOf, drawNew, editing, editMask, splitMask } from "./editor.js";
import { decideWithReason, drawInspector, isWriting, stopWriting, writeSentence } from "./inspector.js";
import { isTyping, nameOf } from "./keys.js";
import { decide, draftOf, drop, draftKeys, intentOn, openOutbox, outbox, seen, signedIn, undoNewest } from "./outbox.js";
import { beside, filters, first, focusSearch, inQueue, nextForMe, openQueue, refilter, rememberPlace, reveal, setFilter } from "./queue.js";
import { drawToolbar, focused, look, mainPane, redraw, showScene, toggleDates, warmPicture } from "./viewer.js";

const POLL_MS = 2500;
const keyOfLast = () => `trigpoint:last:${desk.name}`;

// opening scenes and items

async function openScene(sceneId) {
  if (!desk.scenes.has(sceneId)) return;
  if (desk.scene !== sceneId) {
    desk.chosen.clear();
    desk.scene = sceneId;
    showScene(sceneId);
  }
  if (!desk.shapes.has(sceneId)) await attempt(() => loadShapes(sceneId));
  drawToolbar();
}

let opening = 0;

let opened = Promise.resolve();
function openItem(id) {
  opened = open(id);
  return opened;
}

async function open(id) {
  const row = desk.rows.get(id);
  if (!row) return;
  if (editing) {
    if (editing.isChanged) toast("Your edit is kept as a draft; open the item to go on with it.");
    closeEditor();
  }
  stopWriting();
  const number = ++opening;
  desk.current = id;
  desk.chosen.clear();
  rememberPlace(id);
  try {
    sessionStorage.setItem(keyOfLast(), id);
  } catch { /* a full storage is said where it matters */ }
  reveal(id);
  drawInspector();
  redraw();
  await Promise.all([openScene(row.scene), desk.details.get(id)?.row.newest === row.newest && desk.details.get(id)?.row.version === row.version ? null : attempt(() => loadDetail(id))]);
  if (number !== opening) return;
  if (look.follows) mainPane()?.zoomTo(focused());
  else mainPane()?.ensureSeen(focused());
  redraw();
  const draft = draftOf(draftKeyOf(row));
  if (draft && !editing && !isOpen()) {
    if (draft.kind === "edit") attempt(() => editMask(row));
    else if (draft.kind === "split") splitMask(row);
  }
  const ahead = beside(id, 1);
  if (ahead && ahead.scene !== row.scene) warmPicture(ahead.scene);
  else if (ahead && !desk.details.has(ahead.id)) loadDetail(ahead.id).catch(() => {});
}

async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (error instanceof Unreachable) seen(false);
    else if (error instanceof Refused) {
      if (error.status !== 401) toast(error.message, { kind: "bad" });
    } else {
      console.error(error);
      toast(`A fault in the page: ${error.message}`, { kind: "bad" });
    }
    return undefined;
  }
}

function step(by) {
  const row = beside(desk.current, by);
  if (row) openItem(row.id);
}

// after a decision: on to the next, the list may no longer hold the item
function goOn(from) {
  const next = beside(from, 1) ?? beside(from, -1);
  rememberPlace(from);
  if (next && next.id !== from) openItem(next.id);
}

function stepScene(by) {
  const ids = [...desk.scenes.keys()];
  const at = Math.max(0, ids.indexOf(desk.scene));
  const sceneId = ids[(at + by + ids.length) % ids.length];
  if (filters.scene) setFilter({ scene: sceneId });
  const row = [...desk.rows.values()].find((one) => one.scene === sceneId && inQueue(one.id));
  if (row) openItem(row.id);
  else {
    desk.current = null;
    drawInspector();
    openScene(sceneId);
  }
}

// deeds

const needsItem = new Set(["accept", "accept-with-reason", "return", "reject", "comment", "edit", "brush", "category", "separable", "split", "merge"]);

async function run(name) {
  const row = desk.rows.get(desk.current);
  if (needsItem.has(name)) {
    if (!row) return void toast("Open an item first.");
    if (row.status === "gone" && name !== "comment") return void toast("It was split or merged away; undo that to decide about it.");
    if (outbox.stuckOf(row.id) && name !== "comment") return void toast("Say first what becomes of your decision that was not taken.", { kind: "bad" });
  }
  const pane = mainPane();
  const pan = 0.2 * Math.min(pane?.width ?? 0, pane?.height ?? 0);
  switch (name) {
    case "accept": {
      if (desk.details.get(row.id)?.check?.verdict === "contradicted" || row.doubt === "contradicted") return void toast("The ground contradicts it: change the text, or reject it.", { kind: "bad" });
      const from = row.id;
      decide(intentOn(row, "accept"), null, row.label);
      return goOn(from);
    }
    case "accept-with-reason": case "return": case "reject": case "comment": {
      if (name === "return" && !canReturn(row)) return void toast("The policy of this release asks for nobody: what is returned would be released all the same. Reject it (X), or write a remark (W).");
      const action = name === "accept-with-reason" ? "accept" : name;
      if ((await decideWithReason(row, action)) && action !== "comment") goOn(row.id);
      return undefined;
    }
    case "undo": {
      const undone = undoNewest();
      if (!undone) return void toast("There is nothing of yours to undo here.");
      toast(`Undone: ${undone.action}.`);
      if (desk.rows.has(undone.item_id)) openItem(undone.item_id);
      return undefined;
    }
    case "next": return step(1);
    case "previous": return step(-1);
    case "first": return first() && openItem(first().id);
    case "next-for-me": {
      const next = nextForMe(desk.current);
      return next ? openItem(next.id) : void toast("Nothing waits for you.");
    }
    case "search": return focusSearch();
    case "next-scene": return stepScene(1);
    case "previous-scene": return stepScene(-1);
    case "zoom-item": await opened; return pane?.zoomTo(focused());
    case "follow":
      look.follows = !look.follows;
      toast(look.follows ? "Every item is zoomed to when it is opened." : "The view stays when an item is opened.");
      if (look.follows) pane?.zoomTo(focused());
      break;
    case "fit": return pane?.fit();
    case "zoom-in": return pane?.zoom(1.4);
    case "zoom-out": return pane?.zoom(1 / 1.4);
    case "pan-left": return pane?.pan(pan, 0);
    case "pan-right": return pane?.pan(-pan, 0);
    case "pan-up": return pane?.pan(0, pan);
    case "pan-down": return pane?.pan(0, -pan);
    case "outlines": look.outlines = (look.outlines + 1) % 3; break;
    case "filled": look.filled = !look.filled; break;
    case "colours": look.colours = look.colours === "status" ? "category" : "status"; break;
    case "dates": if (!toggleDates()) toast("This scene has one date only."); break;
    case "edit": return isMask(row) ? attempt(() => editMask(row)) : writeSentence(row);
    case "brush": return isMask(row) ? attempt(() => editMask(row, "brush")) : undefined;
    case "category": return isMask(row) ? changeCategory(row) : undefined;
    case "separable":
      if (editing?.row?.id === row.id) return editing.tellApart();
      return isMask(row) ? decide(intentOn(row, "edit", { separable: !row.separable }), null, row.label) : undefined;
    case "split": return isMask(row) ? splitMask(row) : undefined;
    case "merge": return isMask(row) ? merge(row) : undefined;
    case "new": return desk.scene ? drawNew(desk.scene) : undefined;
    case "help": return showKeys();
    default: return undefined;
  }
  drawToolbar();
  return redraw();
}

async function changeCategory(row) {
  const category = await pickCategory(row.category);
  const now = desk.rows.get(row.id);
  if (!category || !now || category.join() === now.category.join()) return;
  decide(intentOn(now, "edit", { category }), null, row.label);
}

async function merge(row) {
  const others = [...desk.chosen].map((id) => desk.rows.get(id)).filter((one) => one && one.scene === row.scene);
  if (!others.length) return void toast("Choose neighbours first: Shift+click them in the picture.");
  if (!(await confirmIt("Merge", `${plural(others.length + 1, "mask")} become one, called ${row.label}. The others are no longer there; undo brings them back.`, "Merge"))) return;
  const merged = others.map((one) => ({ item_id: one.id, version: one.version, previous: one.newest }));
  desk.chosen.clear();
  decide(intentOn(row, "merge", { merged }), null, row.label);
  tell("chosen");
}

// keys

document.addEventListener("keydown", (event) => {
  if (isOpen() || event.defaultPrevented) return;
  if (event.key === " " && !isTyping(event) && !(event.target instanceof HTMLButtonElement)) {
    if (mainPane()) mainPane().space = true;
    event.preventDefault();
    return;
  }
  if (isTyping(event) && event.target.type !== "range" && event.target.type !== "checkbox") return;
  if (editing?.pressed(event)) return void event.preventDefault();
  const isOnButton = event.target instanceof HTMLElement && event.target.closest("button, summary, select");
  if (isOnButton && (event.key === "Enter" || event.key === " " || event.key.startsWith("Arrow"))) return;
  const name = nameOf(event);
  if (!name || event.repeat && needsItem.has(name)) return;
  event.preventDefault();
  run(name);
});
document.addEventListener("keyup", (event) => {
  if (event.key === " " && mainPane()) mainPane().space = false;
});

// header

function drawHeader() {
  byId("release").textContent = `${desk.title || desk.name}`;
  byId("release").title = desk.name;
  const { who, role, fixed } = desk.me;
  fill(byId("me"), h("b", {}, who ?? "sign in"), h("span", { class: "role" }, role ?? ""));
  byId("me").title = fixed ? "The name was given when the page was started" : "Change your name, or open a link for another browser";
  drawConnection();
}

function drawConnection() {
  const [unsent, stuck] = [outbox.unsent.length, outbox.stuck.length];
  const [text, kind] = stuck ? [`${plural(stuck, "decision")} not taken`, "bad"] : !outbox.isOnline ? [`Offline${unsent ? `: ${unsent} kept here` : ""}`, "bad"] : unsent ? [`Sending ${unsent} …`, "busy"] : ["All saved", "good"];
  const element = byId("connection");
  element.className = `quiet ${kind}`;
  fill(element, h("i", { class: "lamp" }), text);
}

byId("connection").addEventListener("click", () => showUnsent([...outbox.stuck, ...outbox.unsent], (deed, entry) => {
  if (deed === "discard") drop(entry);
  else if (entry.intent.item_id) openItem(entry.intent.item_id);
}));
byId("help").addEventListener("click", showKeys);
byId("me").addEventListener("click", () => {
  const dialog = h("dialog", { class: "menu-dialog", "aria-label": "You" });
  const close = (action) => () => { dialog.close(); action(); };
  dialog.append(h("h2", {}, desk.me.who ?? "You"), h("div", { class: "stack" },
    desk.me.fixed ? h("p", {}, "The name was given when the page was started.") : button("Sign with another name or role", null, close(signIn)),
    button("A link for another browser", null, close(() => attempt(showLink))),
    h("div", { class: "row end" }, button("Close", "Esc", () => dialog.close()))));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  document.body.append(dialog);
  dialog.showModal();
});

async function signIn(isFirst = false) {
  const session = await askName(isFirst === true);
  if (!session) return;
  Object.assign(desk.me, session);
  drawHeader();
  tell("signed");
  drawInspector();
  signedIn();
}

let isAsking = false;
document.addEventListener("signed-out", async () => {
  if (isAsking || !desk.name) return;
  isAsking = true;
  Object.assign(desk.me, await askToken("The page was started anew, or this browser was signed out. Unsent work is kept here. Take the newest link from the terminal."));
  isAsking = false;
  if (desk.me.who === null) await signIn(true);
  drawHeader();
  signedIn();
  poll();
});

// what others do

let polling = 0;

async function poll() {
  clearTimeout(polling);
  if (!document.hidden && !isAsking) {
    try {
      const before = new Map([...desk.rows].map(([id, row]) => [id, row.newest]));
      const changed = takeRows(await get(`/api/queue?since=${encodeURIComponent(desk.mark)}`));
      seen(true);
      await takeOthers(changed, before);
    } catch (error) {
      if (error instanceof Unreachable) seen(false);
      else if (!(error instanceof Refused)) console.error(error);
    }
  }
  polling = setTimeout(poll, POLL_MS);
}

async function takeOthers(changed, before) {
  const scenes = new Set();
  for (const row of changed) {
    const shape = desk.shapes.get(row.scene)?.get(row.id);
    if (desk.shapes.has(row.scene) && (row.gone || (row.kind === "mask" && shape?.version !== row.version))) scenes.add(row.scene);
    if (!row.gone && desk.details.get(row.id)?.row.newest !== row.newest) desk.details.delete(row.id);
  }
  for (const sceneId of scenes) await loadShapes(sceneId);
  const row = desk.rows.get(desk.current);
  if (desk.current && !row) {
    desk.current = null;
    drawInspector();
  } else if (row && !desk.details.has(row.id)) {
    const detail = await loadDetail(row.id);
    const last = detail.history.at(-1);
    if (last && last.who !== desk.me.who && before.get(row.id) !== row.newest) {
      toast(`${last.who} (${last.role}): ${last.action}${last.reason ? ` “${last.reason}”` : ""} on this item, just now.${editing || isWriting() ? " Saving yours will ask you what to do." : ""}`, { kind: "busy", for_ms: 9000 });
    }
  }
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
window.addEventListener("online", poll);

// wiring

when("open-item", (id) => openItem(id));
when("open-scene", (sceneId) => {
  const row = [...desk.rows.values()].find((one) => one.scene === sceneId && inQueue(one.id));
  if (row && desk.rows.get(desk.current)?.scene !== sceneId) openItem(row.id);
  else if (!row) { desk.current = null; drawInspector(); openScene(sceneId); }
});
when("need-shapes", (sceneId) => { if (!desk.shapes.has(sceneId)) attempt(() => loadShapes(sceneId)); });
when("command", run);
when("outbox", () => { drawConnection(); redraw(); });
when("draft", () => refilter());
when("edited", ({ row }) => { if (row) { reveal(row.id); drawInspector(); } });
when("resume", ({ kind, row, scene }) => {
  if (kind === "new") drawNew(scene);
  else if (kind === "split") splitMask(row);
  else attempt(() => editMask(desk.rows.get(row.id) ?? row));
});
when("stuck", (entry) => {
  if (!entry) return;
  const isHere = entry.intent.item_id === desk.current;
  drawInspector();
  if (isHere) return;
  toast(entry.error, { kind: "bad", for_ms: 9000, actions: desk.rows.has(entry.intent.item_id) ? [["Look at it", () => openItem(entry.intent.item_id)]] : [] });
});
when("sent", ({ entry, answer }) => {
  const made = answer.items.filter(Boolean);
  if (entry.intent.action === "add" && made[0]) openItem(made[0].row.id);
  if (entry.intent.action === "split" && desk.current === entry.intent.item_id) {
    const piece = made.find((item) => item.row.id !== entry.intent.item_id && item.fate === "here");
    if (piece) openItem(piece.row.id);
  }
  if (desk.current && !desk.rows.has(desk.current)) {
    desk.current = null;
    const next = beside(null, 0);
    if (next) openItem(next.id);
    else drawInspector();
  }
  drawInspector();
});
async function start() {
  try {
    Object.assign(desk.me, await openSession());
  } catch (error) {
    if (error instanceof Unreachable) return void fill(document.querySelector("main"), h("div", { class: "empty big" }, h("h2", {}, "The server does not answer"), h("p", {}, "Start trigpoint review again and open its link.")));
    Object.assign(desk.me, await askToken("This link was used already, or there was none. Paste the newest link from the terminal, or a link from a colleague's page."));
  }
  await loadDesk();
  document.title = `${desk.name} · review`;
  if (desk.me.who === null) await signIn(true);
  drawHeader();
  openQueue();
  openOutbox();
  let last = null;
  try {
    last = sessionStorage.getItem(keyOfLast());
  } catch { /* private windows may have none */ }
  const row = desk.rows.get(last) ?? first();
  if (row) await openItem(row.id);
  else {
    drawInspector();
    const [sceneId] = desk.scenes.keys();
    if (sceneId) await openScene(sceneId);
  }
  const news = draftKeys().filter((key) => key.startsWith("new:") && desk.scenes.has(key.slice(4)));
  if (news.length) {
    const sceneId = news[0].slice(4);
    toast("A new mask that you began is not saved.", { stays: true, actions: [["Go on with it", async () => { await openScene(sceneId); drawNew(sceneId); }]] });
  }
  document.body.dataset.ready = "1";
  performance.mark("ready");
  polling = setTimeout(poll, POLL_MS);
}

start().catch((error) => {
  console.error(error);
  toast(`The page could not be opened: ${error.message}`, { kind: "bad", stays: true });
});

