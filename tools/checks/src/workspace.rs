//! The workspace as Cargo sees it, and its source files.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Packages, files and texts that the rules look at.
pub struct Workspace {
    pub root: PathBuf,
    pub packages: Vec<Package>,
}

/// A package of this workspace.
pub struct Package {
    pub name: String,
    /// Its directory, from the root.
    pub directory: PathBuf,
    pub dependencies: Vec<Dependency>,
}

/// What a package's manifest names.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// As the manifest calls it.
    pub name: String,
    /// The requirement, as Cargo prints it.
    pub version: String,
    /// For tests and examples only.
    pub development: bool,
    /// Features of it that are turned on.
    pub features: Vec<String>,
}

impl Workspace {
    /// This workspace.
    ///
    /// # Panics
    /// If Cargo cannot describe it.
    pub fn load() -> Self {
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in tools/").to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(&root)
            .output()
            .expect("cargo runs, or this test would not");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
        let packages = array(&metadata["packages"]).iter().map(|package| Package::new(package, &root)).collect();
        Self { root, packages }
    }

    /// The package of that name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// All files below the root that end with `extension`, as paths from the root, in order. Build
    /// results and hidden directories are left out.
    pub fn files(&self, extension: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(&self.root, extension, &mut files);
        files.sort();
        files.into_iter().filter_map(|path| path.strip_prefix(&self.root).ok().map(Path::to_owned)).collect()
    }

    /// A file's text; empty if it is not there.
    pub fn text(&self, path: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

impl Package {
    fn new(package: &Value, root: &Path) -> Self {
        let manifest = Path::new(text(&package["manifest_path"]));
        let directory = manifest.parent().expect("a manifest lies in a directory");
        let dependency = |dependency: &Value| Dependency {
            name: dependency["rename"].as_str().unwrap_or(text(&dependency["name"])).into(),
            version: text(&dependency["req"]).into(),
            development: dependency["kind"] == "dev",
            features: array(&dependency["features"]).iter().map(|feature| text(feature).into()).collect(),
        };
        Self {
            name: text(&package["name"]).into(),
            directory: directory.strip_prefix(root).unwrap_or(directory).to_owned(),
            dependencies: array(&package["dependencies"]).iter().map(dependency).collect(),
        }
    }

    /// Whether a dependency is another package of this workspace.
    pub fn is_ours(name: &str) -> bool {
        name == "saki" || name.starts_with("saki-")
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn collect(directory: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let skipped = name.starts_with('.') || matches!(&*name, "target" | "bench-data" | "demo" | "corpus" | "venv");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !skipped => collect(&path, extension, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|found| found == extension) => files.push(path),
            _ => {}
        }
    }
}
