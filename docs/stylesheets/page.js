// For screen readers and the keyboard: blocks of code have names, and can be moved sideways.
document$.subscribe(() => {
  document.querySelectorAll("nav.md-code__nav").forEach((nav, k) => nav.setAttribute("aria-label", `Code ${k + 1}`));
  document.querySelectorAll("pre > code").forEach((code) => code.setAttribute("tabindex", "0"));
});
