// Noise of private means over the number of records: redrawn whenever a control moves.
"use strict";

// Complementary error function, with a relative error below 1.2e-7 (Numerical Recipes, erfcc).
function erfc(x) {
  const t = 1 / (1 + Math.abs(x) / 2);
  const c = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  const sum = c.reduceRight((value, coefficient) => coefficient + t * value, 0);
  const tail = t * Math.exp(-x * x + sum);
  return x >= 0 ? tail : 2 - tail;
}

// The delta at epsilon of Gaussian noise whose ratio of sensitivity to scale is mu.
function gaussianDelta(mu, epsilon) {
  const normal = (x) => erfc(-x / Math.SQRT2) / 2;
  return normal(mu / 2 - epsilon / mu) - Math.exp(epsilon) * normal(-mu / 2 - epsilon / mu);
}

// The largest mu that (epsilon, delta) allows, by bisection.
function gaussianMu(epsilon, delta) {
  let low = 1e-4, high = 100;
  for (let k = 0; k < 60; k++) {
    const mu = Math.sqrt(low * high);
    if (gaussianDelta(mu, epsilon) <= delta) low = mu;
    else high = mu;
  }
  return low;
}

function rounded(x) {
  return Number(x.toPrecision(2)).toLocaleString("en", { maximumSignificantDigits: 2 });
}

function drawNoise(root) {
  const control = (name) => Number(root.querySelector(`[name=${name}]`).value);
  const n = Math.round(10 ** control("n"));
  const epsilon = 10 ** control("epsilon");
  const columns = Math.round(10 ** control("columns"));
  const delta = control("delta");
  const mu = gaussianMu(epsilon, delta);
  // All means at once: one record changes each of them by at most 2/n.
  const noise = (records) => (2 * Math.sqrt(columns)) / (records * mu);
  const sampling = (records) => 1 / Math.sqrt(records);
  const crossing = (4 * columns) / (mu * mu);

  const left = 70, right = 590, top = 12, bottom = 280;
  const x = (records) => left + ((Math.log10(records) - 2) / 5) * (right - left);
  const y = (size) => top + ((2 - Math.log10(size)) / 10) * (bottom - top);
  const parts = [];
  const text = (px, py, anchor, content) =>
    parts.push(`<text x="${px}" y="${py}" text-anchor="${anchor}">${content}</text>`);
  for (let k = 2; k <= 7; k++) {
    parts.push(`<line class="grid" x1="${x(10 ** k)}" x2="${x(10 ** k)}" y1="${top}" y2="${bottom}"/>`);
    text(x(10 ** k), bottom + 18, "middle", (10 ** k).toLocaleString("en"));
  }
  for (let k = -8; k <= 2; k += 2) {
    parts.push(`<line class="grid" x1="${left}" x2="${right}" y1="${y(10 ** k)}" y2="${y(10 ** k)}"/>`);
    text(left - 8, y(10 ** k) + 5, "end", k < -2 ? `1e${k}` : String(10 ** k));
  }
  text((left + right) / 2, bottom + 42, "middle", "records");
  const line = (name, size) => parts.push(
    `<line class="${name}" x1="${x(100)}" y1="${y(size(100))}" x2="${x(1e7)}" y2="${y(size(1e7))}"/>`);
  line("sampling", sampling);
  line("private", noise);
  parts.push(`<circle class="private" cx="${x(n)}" cy="${y(noise(n))}" r="6"/>`);
  parts.push(`<line class="private" x1="430" x2="460" y1="28" y2="28"/>`);
  text(468, 33, "start", "noise of privacy");
  parts.push(`<line class="sampling" x1="430" x2="460" y1="50" y2="50"/>`);
  text(468, 55, "start", "sampling error");
  root.querySelector("svg").innerHTML = parts.join("");

  root.querySelector("output").textContent =
    `${n.toLocaleString("en")} records, ε = ${rounded(epsilon)}, δ = ${delta.toExponential()}, ` +
    `${columns} column${columns > 1 ? "s" : ""}: the noise of a mean has standard deviation ` +
    `${rounded(noise(n))}, and its sampling error is at most ${rounded(sampling(n))}. ` +
    `Noise is the smaller of the two from ${Math.ceil(crossing).toLocaleString("en")} records.`;
}

const noisePlot = document.getElementById("noise");
if (noisePlot) {
  noisePlot.addEventListener("input", () => drawNoise(noisePlot));
  drawNoise(noisePlot);
}
