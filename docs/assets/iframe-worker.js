// Browsers refuse workers to pages that are opened as files. Where that is so, search runs in a hidden frame instead.
(function () {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...scripts) =>
        scripts.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.load(address).then(() => {
        this.ready = true;
        this.waiting.forEach((data) => this.postMessage(data));
      });
    }

    load(address) {
      const script = this.inside.document.createElement("script");
      script.src = address;
      const loaded = new Promise((done, failed) => { script.onload = done; script.onerror = failed; });
      this.inside.document.head.append(script);
      return loaded;
    }

    postMessage(data) {
      if (this.ready) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  }

  window.IFrameWorker = window.Worker = FrameWorker; // the theme's search looks for the first name
})();
