import { setUpBench } from "./bench.js";
import { setUpChat } from "./chat.js";
import { byId } from "./dom.js";
import { setUpLoading } from "./engine.js";
import { loadFirst, setUpModels } from "./models.js";
import { setUpSettings } from "./settings.js";

/** Shows one of the views. */
function view(name: "chat" | "bench"): void {
  for (const other of ["chat", "bench"]) {
    byId(other).hidden = other !== name;
    byId(`show-${other}`).toggleAttribute("aria-current", false);
  }
  byId(`show-${name}`).setAttribute("aria-current", "page");
}

setUpSettings();
setUpLoading();
setUpModels();
setUpChat();
setUpBench();
byId("show-chat").addEventListener("click", () => view("chat"));
byId("show-bench").addEventListener("click", () => view("bench"));
void loadFirst();

if ("serviceWorker" in navigator && import.meta.env.PROD) {
  navigator.serviceWorker.register("./sw.js").catch(() => {
    // Without the service worker the page needs the network.
  });
}
