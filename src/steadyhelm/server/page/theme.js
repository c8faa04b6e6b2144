// Runs before the first paint, as a file of its own: the policy allows no inline script.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("steadyhelm.theme");
  } catch {
    // Storage can be switched off; the system's theme holds then.
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
