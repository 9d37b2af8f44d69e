import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: true, async: false });

/** Allowed elements and attributes: text only, without forms, styles and external resources. */
const ALLOWED = [
  "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote",
  "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

/** Renders Markdown of a model to sanitised nodes. */
export function render(markdown: string): DocumentFragment {
  return DOMPurify.sanitize(marked.parse(markdown) as string, {
    ALLOWED_TAGS: ALLOWED,
    ALLOWED_ATTR: ["href", "start", "align"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    RETURN_DOM_FRAGMENT: true,
  });
}
