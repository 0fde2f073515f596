// The filters of the incident list: its form holds them, the address follows the form, and `reload` shows the address.
// Nothing is lost when one filter follows another before the list has changed.

const form = document.querySelector("[data-filters]");

export function followFilters(reload) {
  if (!form) return;
  fill(new URLSearchParams(location.search));
  const show = (changed) => {
    if (!apply(changed)) return;
    document.querySelector("#list").ariaBusy = "true";
    reload();
  };
  form.addEventListener("submit", (event) => (event.preventDefault(), show()));
  form.addEventListener("change", () => show());
  addEventListener("popstate", () => (fill(new URLSearchParams(location.search)), reload()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-filter]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    show(new URLSearchParams(link.dataset.filter));
    if (link.closest(".pages")) scrollTo(0, 0);
  });
}

// Changes the form and the address; false if that changes nothing.
function apply(changed = new URLSearchParams()) {
  for (const [name, value] of changed) if (form.elements[name]) choose(form.elements[name], value);
  const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  if (changed.get("page") > 1) wanted.set("page", changed.get("page"));
  const address = wanted.size ? `/?${wanted}` : "/";
  if (address === location.pathname + location.search) return false;
  history.pushState(null, "", address);
  return true;
}

function fill(wanted) {
  for (const field of form.elements) if (field.name) choose(field, wanted.get(field.name) ?? "");
}

function choose(field, value) {
  const isOffered = !field.options || [...field.options].some((option) => option.value === value);
  if (!isOffered) field.add(new Option(value, value));
  field.value = value;
}
