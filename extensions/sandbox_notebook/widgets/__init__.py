"""Live views for notebooks. Each module is one widget: Python here, the page's part beside it as plain JavaScript."""
