// Runs before the page is painted, so that a chosen theme does not flash in after the system's.
{
  let chosen = null;
  try {
    chosen = JSON.parse(localStorage.getItem("tp-infer.theme"));
  } catch {
    // Without a choice the page follows the system.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
