"use strict";
// The heat map: a cell for each GPU, coloured by its share of what its equals do. Without this script the lists say who is slow.
(() => {
  const holder = document.getElementById("maps");
  if (!holder) return;
  const data = JSON.parse(document.getElementById("heat").textContent);
  const NONE = 255, USUAL = 98, HOTTEST = 70;  // percent
  const colours = () => ["--usual", "--hot", "--page", "--line"].map(name => getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  const channels = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  const firsts = [];  // the first cell of each node
  let cells = 0;
  for (const gpus of data.gpus) { firsts.push(cells); cells += gpus.length; }
  const rows = Math.max(1, ...data.gpus.map(gpus => gpus.length));
  const size = data.gpus.length <= 60 ? 14 : data.gpus.length <= 1000 ? 8 : 4;
  const heats = data.maps.map(map => Uint8Array.from(atob(map.shares), letter => letter.charCodeAt(0)));
  const said = share => share === NONE ? "not measured, or without equals" : `${share} % of the usual`;

  function show(node) {
    const panel = document.getElementById("node");
    panel.hidden = false;
    document.getElementById("node-name").textContent = data.names[node];
    document.getElementById("node-state").textContent = data.states[node];
    const table = document.createElement("table");
    const line = (tag, words) => {
      const row = table.insertRow();
      for (const [at, word] of words.entries()) {
        const cell = document.createElement(at === 0 ? "th" : tag);
        if (at > 0) cell.className = "number";
        cell.textContent = word;
        row.append(cell);
      }
    };
    line("th", ["Percent of the usual", ...data.gpus[node].map(gpu => `GPU ${gpu}`)]);
    for (const [at, map] of data.maps.entries())
      line("td", [map.title, ...data.gpus[node].map((_, gpu) => { const share = heats[at][firsts[node] + gpu]; return share === NONE ? "-" : String(share); })]);
    document.getElementById("node-figures").replaceChildren(table);
    panel.focus();
  }

  for (const [at, map] of data.maps.entries()) {
    const figure = document.createElement("figure");
    figure.className = "map";
    const title = document.createElement("figcaption");
    const measured = [...heats[at]].filter(share => share !== NONE);
    const least = measured.reduce((one, other) => Math.min(one, other), NONE);
    title.textContent = `${map.title}: ${measured.length} GPUs, the slowest ${least} % of the usual`;
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${title.textContent}. Arrow keys go from GPU to GPU, Enter shows the node.`);
    const output = document.createElement("output");
    figure.append(title, canvas, output);
    holder.append(figure);
    let columns = 1, chosen = null;

    function draw() {
      const [usual, hot, page, line] = colours();
      const from = channels(usual), to = channels(hot), scale = window.devicePixelRatio || 1;
      const width = Math.max(size, canvas.clientWidth);
      columns = Math.max(1, Math.floor(width / size));
      const bands = Math.ceil(data.gpus.length / columns), band = rows * size + (rows > 1 ? size : 0);
      canvas.style.height = `${bands * band}px`;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(bands * band * scale);
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      for (const [node, gpus] of data.gpus.entries())
        for (let gpu = 0; gpu < gpus.length; gpu++) {
          const share = heats[at][firsts[node] + gpu];
          const x = node % columns * size, y = Math.floor(node / columns) * band + gpu * size;
          const heat = Math.min(1, Math.max(0, (USUAL - share) / (USUAL - HOTTEST)));
          pen.fillStyle = share === NONE ? page : `rgb(${from.map((value, part) => Math.round(value + (to[part] - value) * heat)).join(",")})`;
          pen.fillRect(x, y, size - 1, size - 1);
          if (share === NONE) { pen.strokeStyle = line; pen.strokeRect(x + .5, y + .5, size - 2, size - 2); }
        }
      if (chosen) {
        pen.strokeStyle = getComputedStyle(canvas).color;
        pen.lineWidth = 2;
        pen.strokeRect(chosen[0] % columns * size, Math.floor(chosen[0] / columns) * band + chosen[1] * size, size, size);
      }
    }

    // The next node that has a GPU.
    function beside(node, step) {
      do node += step; while (data.gpus[node]?.length === 0);
      return node;
    }

    function choose(node, gpu) {
      if (node < 0 || node >= data.gpus.length || !data.gpus[node].length) return;
      chosen = [node, Math.min(Math.max(gpu, 0), data.gpus[node].length - 1)];
      output.textContent = `${data.names[node]} GPU ${data.gpus[node][chosen[1]]}: ${said(heats[at][firsts[node] + chosen[1]])}; ${data.states[node]}`;
      draw();
    }

    canvas.addEventListener("pointermove", event => {
      const band = rows * size + (rows > 1 ? size : 0);
      const column = Math.floor(event.offsetX / size), gpu = Math.floor(event.offsetY % band / size);
      if (column < columns && gpu < rows) choose(Math.floor(event.offsetY / band) * columns + column, gpu);
    });
    canvas.addEventListener("click", () => { if (chosen) show(chosen[0]); });
    canvas.addEventListener("keydown", event => {
      const [node, gpu] = chosen || [0, 0];
      const to = { ArrowLeft: [beside(node, -1), gpu], ArrowRight: [beside(node, 1), gpu], ArrowUp: [node, gpu - 1], ArrowDown: [node, gpu + 1] }[event.key];
      if (to) { event.preventDefault(); choose(...to); }
      if (event.key === "Enter" && chosen) { event.preventDefault(); show(chosen[0]); }
    });
    draw();
    addEventListener("resize", draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }
})();
