import type { BenchReport } from "wisp-web";
import { byId, make } from "./dom.js";
import { complain, engine, onChange } from "./engine.js";

/** The lengths of measured prompts in tokens. Those beyond the limit of the model are left out. */
const PROMPTS = [8, 32, 128, 256];
const NEW_TOKENS = 16;
const SVG = "http://www.w3.org/2000/svg";

type Point = BenchReport & { prompt: number };

function svg(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.textContent = text;
  return element;
}

/** The number of steps of an axis. */
const STEPS = 4;

/** Rounds up to a number whose quarters are round. */
function round(value: number): number {
  const step = Math.max(value, 1) / STEPS;
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 2.5, 5].find((factor) => factor * power >= step) ?? 10;
  return factor * power * STEPS;
}

/** Plots tokens per second over the length of the prompt. */
function plot(points: Point[]): SVGElement {
  // The plot has the width of its container, so that text is not scaled.
  const width = Math.min(640, Math.max(280, byId("bench-result").clientWidth - 34));
  const [height, left, bottom, top, right] = [300, 44, 44, 16, 64];
  const most = round(Math.max(...points.flatMap(({ prefill, decode }) => [prefill.median, decode.median])));
  const x = (i: number) => left + (points.length > 1 ? i / (points.length - 1) : 0.5) * (width - left - right);
  const y = (rate: number) => height - bottom - (rate / most) * (height - bottom - top);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Tokens per second over the length of the prompt; the table below has the numbers" });
  for (let i = 0; i <= STEPS; i++) {
    const rate = (most * i) / STEPS;
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(rate), y2: y(rate) }));
    chart.append(svg("text", { class: "axis", x: left - 8, y: y(rate) + 4, "text-anchor": "end" }, String(Math.round(rate * 10) / 10)));
  }
  points.forEach(({ prompt }, i) => chart.append(svg("text", { class: "axis", x: x(i), y: height - bottom + 20, "text-anchor": "middle" }, String(prompt))));
  chart.append(svg("text", { class: "axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "tokens of the prompt"));
  for (const series of ["prefill", "decode"] as const) {
    const group = svg("g", { class: series });
    const places = points.map((point, i) => [x(i), y(point[series].median)] as const);
    group.append(svg("polyline", { points: places.map((place) => place.join(",")).join(" ") }));
    for (const [cx, cy] of places) group.append(svg("circle", { cx, cy, r: 4 }));
    const end = places.at(-1)!;
    group.append(svg("text", { class: "label", x: end[0] + 10, y: end[1] + 4 }, series === "prefill" ? "reading" : "writing"));
    chart.append(group);
  }
  return chart;
}

function table(points: Point[]): HTMLTableElement {
  const row = (tag: "th" | "td", cells: string[]) => make("tr", {}, ...cells.map((textContent) => make(tag, { textContent })));
  const rate = ({ median }: { median: number }) => median.toFixed(1);
  return make("table", {},
    make("caption", { className: "hidden", textContent: "Tokens per second" }),
    make("thead", {}, row("th", ["prompt, tokens", "reading, tokens/s", "writing, tokens/s"])),
    make("tbody", {}, ...points.map((point) => row("td", [String(point.prompt), rate(point.prefill), rate(point.decode)]))));
}

async function measure(): Promise<void> {
  const wisp = engine();
  if (!wisp) return;
  const button = byId<HTMLButtonElement>("bench-run");
  const status = byId("bench-status");
  button.disabled = true;
  const points: Point[] = [];
  try {
    for (const prompt of PROMPTS.filter((prompt) => prompt + NEW_TOKENS < wisp.info.maxLength)) {
      status.textContent = `A prompt of ${prompt} tokens…`;
      points.push({ prompt, ...(await wisp.bench({ promptTokens: prompt, newTokens: NEW_TOKENS, runs: 3 })) });
      const { name, software } = wisp.info.device;
      const caption = make("figcaption", { textContent: `${wisp.info.name} on ${name || (software ? "a software GPU" : "this GPU")}, tokens per second` });
      byId("bench-result").replaceChildren(make("figure", {}, caption, plot(points)), table(points));
    }
    status.textContent = "Done.";
  } catch (error) {
    status.textContent = "";
    complain(error, true);
  } finally {
    button.disabled = engine() === undefined;
  }
}

export function setUpBench(): void {
  const button = byId<HTMLButtonElement>("bench-run");
  button.addEventListener("click", () => void measure());
  onChange(() => (button.disabled = engine() === undefined));
  button.disabled = true;
}
