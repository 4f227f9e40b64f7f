"""docs/architecture.md names every folder and module, and its table of imports holds."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clarel_tf

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "clarel_tf"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).as_posix() != "__init__.py"  # imports all, on first use
)


def allowed_imports() -> dict[str, set[str]]:
    """The folders that each folder may import, in the order of the table."""
    table = TEXT.split("| folder | holds | may import |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {name.strip("`"): set(re.findall(r"`(\w+)`", allowed)) for name, _, allowed in rows}


def folder_of(parts: list[str]) -> str:
    """The folder of clarel_tf.<parts>; `top` for the modules directly in the package."""
    if not parts or (PACKAGE / f"{parts[0]}.py").exists() or parts[0].startswith("__"):
        return "top"
    home = clarel_tf._HOME_OF_NAME.get(parts[0])  # a name that the package imports on first use
    return folder_of(home.split(".")[1:]) if home else parts[0]


# May look modules up by name: Keras asks `registration` for classes when it reads a model file.
DYNAMIC = {"registration.py"}
_LOOKUPS = ("importlib", "pkgutil", "runpy", "imp")


def looks_modules_up(source: str) -> bool:
    """True if a module imports by computed names, which no table can check."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = [
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    ]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    used = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    used += [node.id for node in nodes if isinstance(node, ast.Name)]
    # Metadata of installed packages: nothing is imported.
    imported = [name for name in imported if name != "importlib.metadata"]
    return any(name.split(".")[0] in _LOOKUPS for name in imported) or any(
        name in ("modules", "__import__", "eval", "exec") for name in used
    )


def imported_names(tree: ast.AST, package: list[str]) -> Iterator[list[str]]:
    """What a module imports, wherever in it, by the parts of the name; `package` is its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ([*base, alias.name] for alias in node.names)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "clarel_tf":
            yield ["clarel_tf", node.attr]  # `import clarel_tf.errors` binds the whole package


def own_imports(source: str, package: list[str]) -> set[str]:
    """Folders of clarel_tf that a module imports; "all" for the package as a whole."""
    found = set()
    for first, *parts in imported_names(ast.parse(source), package):
        if first == "clarel_tf":
            found.add(folder_of(parts) if parts else "all")
    return found


def test_the_table_has_every_folder_in_an_order():
    allowed = allowed_imports()
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(allowed) == folders | {"top"}
    above: set[str] = set()
    for folder, others in allowed.items():
        assert others <= above, f"{folder} may import only folders above it in the table"
        above.add(folder)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_folder_may(module):
    path = PACKAGE / module
    folder = module.split("/")[0] if "/" in module else "top"
    package = ["clarel_tf", *module.split("/")[:-1]]
    source = path.read_text(encoding="utf-8")
    imports = own_imports(source, package)
    assert imports <= allowed_imports()[folder] | {folder, "top"}
    assert looks_modules_up(source) <= (module in DYNAMIC)


def test_tests_are_in_the_folders_of_the_package():
    """Only helpers have a folder besides, and only helpers are no tests."""
    paths = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")]
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    assert folders - {"helpers"} == {
        path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "datasets"
    }
    for path in paths:
        is_helper = path.parts[0] in ("helpers", "conftest.py")
        assert path.name.startswith("test_") != is_helper, path


def test_imports_are_found_wherever_they_stand():
    package = ["clarel_tf", "storage"]
    for source, found in (
        ("def f():\n    from clarel_tf.serving.client import connect", {"serving"}),
        ("import clarel_tf.models.losses as losses", {"models"}),
        ("from clarel_tf import reporting", {"reporting"}),
        ("from clarel_tf import run_experiment", {"experiments"}),
        ("from clarel_tf import __version__, errors", {"top"}),
        ("from ..data import split", {"data"}),
        ("from . import files", {"storage"}),
        ("import clarel_tf.errors\nclarel_tf.run_experiment", {"top", "experiments"}),
        ("import clarel_tf", {"all"}),
        ("import clarel_tfx, os.path", set()),
    ):
        assert own_imports(source, package) == found, source


def test_lookups_by_name_are_found():
    for source in (
        "import importlib",
        "from importlib import import_module as load",
        "import pkgutil",
        "import sys\nsys.modules['clarel_tf'].connect",
        "__import__('clarel_tf.serving')",
    ):
        assert looks_modules_up(source), source
    assert not looks_modules_up("import sys, clarel_tf.errors")


def test_every_module_is_listed_under_its_folder():
    listed = set()
    sections = re.findall(
        r"^### `clarel_tf/(\w*)/?`\n\n(.*?)\n(?=\n)", TEXT, flags=re.MULTILINE | re.DOTALL
    )
    for folder, table in sections:
        for name in re.findall(r"^\| `([\w/]+)` \|", table, flags=re.MULTILINE):
            listed.add(f"{folder}/{name}.py" if folder else f"{name}.py")
    assert listed == {name for name in MODULES if not name.endswith("__init__.py")}
