import { Wisp } from "wisp-web";

const engine = await Wisp.load();
const { choices } = await engine.chat.completions.create({ messages: [{ role: "user", content: "Hello!" }], max_tokens: 4 });
await engine.unload();
document.querySelector("#answer").textContent = choices[0].message.content;
