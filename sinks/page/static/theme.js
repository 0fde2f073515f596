// Runs before the first paint, so that the wrong theme never flashes.
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
document.documentElement.dataset.view ??= localStorage.getItem("view") ?? "";
