// Decisions on their way to the server. They are kept in the browser until the server has them, sent in order, and sent again when the
// connection drops; the server knows a decision that it has by what it says, so that none counts twice.

import { post, Refused, Unreachable } from "./api.js";
import { desk, roundOf, takeAnswer, takeDetail, tell } from "./desk.js";
import { toast } from "./dom.js";

const keyOf = (name) => `trigpoint:${name}:${desk.name}`;
const WAITS_MS = [500, 1000, 2000, 4000, 8000];

let entries = [];
let undoable = [];
let isSending = false;
let isOnline = true;
let isSignedIn = true;
let failures = 0;
let timer = 0;

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(keyOf(name)) ?? "[]");
  } catch {
    return [];
  }
}

function keep() {
  try {
    localStorage.setItem(keyOf("outbox"), JSON.stringify(entries));
    localStorage.setItem(keyOf("undoable"), JSON.stringify(undoable.slice(-200)));
  } catch {
    toast("The browser's storage is full: unsent work would be lost with this page. Save what you can and keep the page open.", { kind: "bad", stays: true });
  }
  tell("outbox");
}

export function openOutbox() {
  entries = read("outbox");
  undoable = read("undoable");
  tell("outbox");
  send();
}

export const outbox = {
  get unsent() {
    return entries.filter((entry) => entry.state === "waiting");
  },
  get stuck() {
    return entries.filter((entry) => entry.state !== "waiting");
  },
  get isOnline() {
    return isOnline;
  },
  of: (itemId) => entries.filter((entry) => entry.intent.item_id === itemId || entry.intent.merged?.some((one) => one.item_id === itemId)),
  stuckOf: (itemId) => entries.find((entry) => entry.state !== "waiting" && entry.intent.item_id === itemId),
};

export function intentOn(row, action, more = {}) {
  return {
    who: desk.me.who, role: desk.me.role, action, scene_id: row.scene, item_id: row.id,
    round: roundOf(row), version: row.version, previous: row.newest, ...more,
  };
}

// `result`: pixel-edge runs of a drawing as the server showed them, so that it can be decided anew on another state
export function decide(intent, result = null, label = "") {
  entries.push({ key: crypto.randomUUID?.() ?? String(Math.random()), state: "waiting", at: Date.now(), intent, result, label });
  keep();
  send();
}

export function drop(entry) {
  entries = entries.filter((one) => one.key !== entry.key);
  keep();
}

// the same wish on the item as it is now; what was drawn is sent as the pixels that the person saw
export function redo(entry, row) {
  const intent = { ...entry.intent, version: row.version, previous: row.newest, round: roundOf(row) };
  if (intent.drawn && entry.result) intent.drawn = { mask: entry.result };
  intent.merged = intent.merged?.map((one) => {
    const other = desk.rows.get(one.item_id);
    return other ? { item_id: other.id, version: other.version, previous: other.newest } : one;
  });
  entries = entries.map((one) => (one.key === entry.key ? { ...one, intent, state: "waiting", error: undefined } : one));
  keep();
  send();
}

export function signedIn() {
  isSignedIn = true;
  send();
}

async function send() {
  clearTimeout(timer);
  if (isSending || !isSignedIn) return;
  isSending = true;
  const work = async () => {
    for (let entry; (entry = entries.find((one) => one.state === "waiting")); ) {
      if (!(await sendOne(entry))) break;
    }
  };
  try {
    // one page of a browser sends at a time
    if (navigator.locks) await navigator.locks.request(keyOf("sender"), work);
    else await work();
  } finally {
    isSending = false;
    tell("outbox");
  }
}

async function sendOne(entry) {
  const { intent } = entry;
  try {
    const answer = await post("/api/decisions", intent);
    online();
    entries = entries.filter((one) => one.key !== entry.key);
    const made = answer.rows.find((row) => row.id === intent.item_id);
    // what waits on the same item was decided on what this one made of it
    for (const later of entries) {
      if (made && !made.gone && later.state === "waiting" && later.intent.item_id === made.id) {
        Object.assign(later.intent, { version: made.version, previous: made.newest });
        if (later.intent.action === "undo" && later.intent.undoes === entry.key) later.intent.undoes = answer.decision_id;
      }
    }
    const itemId = answer.items[0]?.row.id ?? intent.item_id ?? answer.rows[0]?.id;
    if (intent.action === "undo") undoable = undoable.filter((one) => one.decision_id !== intent.undoes);
    else if (intent.action !== "comment") undoable.push({ decision_id: answer.decision_id, item_id: itemId, scene: intent.scene_id, action: intent.action });
    keep();
    takeAnswer(answer);
    tell("sent", { entry, answer });
    return true;
  } catch (error) {
    if (error instanceof Unreachable || error.status >= 500) {
      isOnline = false;
      timer = setTimeout(send, WAITS_MS[Math.min(failures++, WAITS_MS.length - 1)]);
      return false;
    }
    online();
    if (error instanceof Refused && error.status === 401) {
      isSignedIn = false;
      return false;
    }
    const state = error.status === 409 ? "conflict" : "refused";
    entries = entries.map((one) => (one.key === entry.key ? { ...one, state, error: error.message } : one));
    // what was decided on top of it waits with it
    entries = entries.filter((one) => one.key === entry.key || one.intent.item_id !== intent.item_id || one.state !== "waiting" || !intent.item_id);
    keep();
    if (error.data?.item) {
      desk.rows.set(error.data.item.row.id, error.data.item.row);
      takeDetail(error.data.item);
      tell("rows", [error.data.item.row]);
    }
    tell("stuck", entries.find((one) => one.key === entry.key));
    return true;
  }
}

function online() {
  isOnline = true;
  failures = 0;
}

export function seen(isReachable) {
  if (isReachable === isOnline) return;
  isOnline = isReachable;
  tell("outbox");
  if (isReachable) send();
}

// undo the newest thing that this person did here; what has not been sent yet is simply not sent
export function undoNewest() {
  const waiting = entries.filter((entry) => entry.state === "waiting").at(-1);
  if (waiting && !(isSending && entries.find((one) => one.state === "waiting") === waiting)) {
    drop(waiting);
    return { item_id: waiting.intent.item_id, scene: waiting.intent.scene_id, action: waiting.intent.action };
  }
  if (waiting) {
    const row = desk.rows.get(waiting.intent.item_id);
    if (!row) return null;
    decide({ ...intentOn(row, "undo"), undoes: waiting.key });
    return { item_id: row.id, scene: row.scene, action: waiting.intent.action };
  }
  const done = undoable.at(-1);
  if (!done) return null;
  const row = desk.rows.get(done.item_id);
  undoable = undoable.slice(0, -1);
  keep();
  if (!row) return undoNewest();
  decide(intentOn(row, "undo", { undoes: done.decision_id }));
  return done;
}

// drafts: what is being edited, kept until it is saved or given up

export function keepDraft(key, draft) {
  try {
    localStorage.setItem(`${keyOf("draft")}:${key}`, JSON.stringify({ ...draft, at: Date.now() }));
  } catch {
    toast("This edit is too large to be kept in the browser: it is lost if the page is closed before you save.", { kind: "bad" });
  }
}

export function draftOf(key) {
  try {
    return JSON.parse(localStorage.getItem(`${keyOf("draft")}:${key}`) ?? "null");
  } catch {
    return null;
  }
}

export const dropDraft = (key) => localStorage.removeItem(`${keyOf("draft")}:${key}`);

export function draftKeys() {
  const prefix = `${keyOf("draft")}:`;
  return Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
}
