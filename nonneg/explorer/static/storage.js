// What the browser remembers between visits. Private windows may not store anything.

/** Return what was remembered, null if there is nothing, or undefined if nothing can be stored. */
export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return undefined;
  }
}

/** Remember a text, if the browser allows it. */
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The reader types it again, or sees it again.
  }
}
