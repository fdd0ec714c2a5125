// Formats numbers for readers.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const two = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : "–";
}

export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 100 ? whole.format(value) : value.toFixed(1);
}

export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 0.01 && value < 1) return `${whole.format(value * 1000)} ms`;
  if (value < 1) return `${two.format(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 7200) return `${whole.format(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${digits.format(value)} ${unit}`;
    value /= 1024;
  }
  return `${digits.format(value)} TiB`;
}

export function percent(part, all) {
  return all > 0 ? `${whole.format((100 * part) / all)} %` : "–";
}
