/** The element of an id that the page certainly has. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element as T;
}

type Child = Node | string;

/** A new element. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Bytes as people read them. */
export function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) {
    bytes /= 1000;
    at += 1;
  }
  return `${bytes.toFixed(at === 0 || bytes >= 100 ? 0 : 1)} ${units[at]}`;
}

/** Says something to those who do not see the page. */
export function announce(text: string): void {
  byId("announcer").textContent = text;
}
