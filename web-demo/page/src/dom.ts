/** Returns the element with an id, which must exist. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as T;
}

type Child = Node | string;

/** Creates an element. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Formats a number of bytes. */
export function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) {
    bytes /= 1000;
    at += 1;
  }
  return `${bytes.toFixed(at === 0 || bytes >= 100 ? 0 : 1)} ${units[at]}`;
}

/** Hides an element. If the focus is in it, `next` gets the focus. */
export function hide(element: HTMLElement, next: HTMLElement): void {
  if (element.contains(document.activeElement)) next.focus();
  element.hidden = true;
}

/** Announces a text to screen readers. */
export function announce(text: string): void {
  byId("announcer").textContent = text;
}
