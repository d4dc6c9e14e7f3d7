// The page's part of UploadPicker; it begins with uploader.js.

function render({ model, el }) {
  const { root, dispose } = uploader(model, { place: `to ${model.get("place")}`, rules: model.get("rules") });
  root.addEventListener("keydown", (event) => event.stopPropagation());
  el.append(root);
  return dispose;
}

export default { render };
