"""Which folder is which package: the folders at the top are not named like the packages."""

from setuptools import find_packages, setup

ROOTS = {
    "negengine.engine": "engine",
    "negengine.export": "export",
    "negengine.bench": "bench",
}

setup(
    # `import negengine` is engine/public.
    packages=[
        "negengine",
        *ROOTS,
        *(f"{name}.{inner}" for name, root in ROOTS.items() for inner in find_packages(root, exclude=["public"])),
    ],
    package_dir={"negengine": "engine/public", **ROOTS},
)
