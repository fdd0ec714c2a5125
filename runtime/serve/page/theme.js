// Runs before the browser paints the page, so the system's theme does not flash before the chosen one.
{
  let chosen = null;
  try {
    chosen = JSON.parse(localStorage.getItem("tp-infer.theme"));
  } catch {
    // If the choice cannot be read, the page uses the system's theme.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
