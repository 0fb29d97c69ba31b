// What the keyboard does: one table, for the listener, the help and docs/review.md.

export const KEYS = [
  {
    title: "Decide",
    keys: [
      { key: "a", shown: ["A"], does: "accept", name: "accept" },
      { key: "A", shown: ["Shift+A"], does: "accept with a remark", name: "accept-with-reason" },
      { key: "r", shown: ["R"], does: "return, with a reason", name: "return" },
      { key: "x", shown: ["X"], does: "reject, with a reason", name: "reject" },
      { key: "u", shown: ["U"], does: "undo what you did last", name: "undo" },
      { key: "w", shown: ["W"], does: "write a remark, decide nothing", name: "comment" },
    ],
  },
  {
    title: "Move",
    keys: [
      { key: "j", shown: ["J", "↓"], does: "next item", name: "next" },
      { key: "k", shown: ["K", "↑"], does: "previous item", name: "previous" },
      { key: "ArrowDown", does: "", name: "next" },
      { key: "ArrowUp", does: "", name: "previous" },
      { key: "Home", shown: ["Home"], does: "first item", name: "first" },
      { key: "n", shown: ["N"], does: "next item that waits for you, in any scene", name: "next-for-me" },
      { key: "/", shown: ["/"], does: "search the queue: words, an id", name: "search" },
      { key: "]", shown: ["]"], does: "next scene", name: "next-scene" },
      { key: "[", shown: ["["], does: "previous scene", name: "previous-scene" },
    ],
  },
  {
    title: "Look",
    keys: [
      { key: "z", shown: ["Z"], does: "zoom to the item", name: "zoom-item" },
      { key: "Z", shown: ["Shift+Z"], does: "zoom to every item that is opened, or no longer", name: "follow" },
      { key: "f", shown: ["F"], does: "fit the scene", name: "fit" },
      { key: "+", shown: ["+"], does: "zoom in", name: "zoom-in" },
      { key: "=", does: "", name: "zoom-in" },
      { key: "-", shown: ["−"], does: "zoom out", name: "zoom-out" },
      { key: "ArrowLeft", shown: ["←", "→"], does: "pan; with Shift ↑ ↓ as well", name: "pan-left" },
      { key: "ArrowRight", does: "", name: "pan-right" },
      { key: "Shift+ArrowUp", does: "", name: "pan-up" },
      { key: "Shift+ArrowDown", does: "", name: "pan-down" },
      { key: "o", shown: ["O"], does: "outlines: all, the item's, none", name: "outlines" },
      { key: "i", shown: ["I"], does: "fill every instance with its colour", name: "filled" },
      { key: "y", shown: ["Y"], does: "colours by status or by category", name: "colours" },
      { key: "d", shown: ["D"], does: "two dates side by side", name: "dates" },
    ],
  },
  {
    title: "Correct",
    keys: [
      { key: "e", shown: ["E"], does: "edit: move vertices, or change the text", name: "edit" },
      { key: "b", shown: ["B"], does: "edit with a brush", name: "brush" },
      { key: "c", shown: ["C"], does: "change the category", name: "category" },
      { key: "t", shown: ["T"], does: "its instances cannot be told apart here, or can", name: "separable" },
      { key: "s", shown: ["S"], does: "split along a line", name: "split" },
      { key: "m", shown: ["M"], does: "merge with neighbours (Shift+click chooses them)", name: "merge" },
      { key: "+mask", shown: ["Shift+N"], does: "draw a new mask", name: "new" },
      { key: "N", does: "", name: "new" },
    ],
  },
  {
    title: "While editing",
    keys: [
      { key: "", shown: ["Enter"], does: "save; close a ring or a line that is being drawn" },
      { key: "", shown: ["Esc"], does: "give up; a ring or a line first" },
      { key: "", shown: ["Ctrl+Z", "Ctrl+Y"], does: "undo and redo within the edit" },
      { key: "", shown: ["V", "B", "E", "P"], does: "vertices, brush, eraser, pen (a new part or hole)" },
      { key: "", shown: ["[", "]"], does: "smaller and larger brush" },
      { key: "", shown: ["Del"], does: "delete the vertex or ring that is chosen" },
      { key: "", shown: ["double click"], does: "choose a whole ring, to move or delete it" },
      { key: "", shown: ["Space"], does: "hold and drag to pan" },
    ],
  },
  { title: "Page", keys: [{ key: "?", shown: ["?"], does: "this table", name: "help" }] },
];
for (const group of KEYS) {
  group.all = group.keys;
  group.keys = group.keys.filter((one) => one.shown);
}

const NAMES = new Map(KEYS.flatMap(({ all }) => all.filter((one) => one.name).map((one) => [one.key, one.name])));

// the name of what a key press asks for, or undefined
export function nameOf(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const isArrow = event.key.startsWith("Arrow");
  return NAMES.get(isArrow && event.shiftKey ? `Shift+${event.key}` : event.key);
}

export function isTyping(event) {
  const { target } = event;
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
