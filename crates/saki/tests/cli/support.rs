//! Running the command and looking at what it says.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use arrow::array::cast::AsArray;
use arrow::array::types::Decimal128Type;
use tempfile::TempDir;

/// What a run of the command said.
pub struct Said {
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            success: output.status.success(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The answer of a run that has to succeed.
    #[track_caller]
    pub fn answer(self) -> String {
        assert!(self.success, "failed: {}\n{}", self.err, self.out);
        self.out
    }

    /// The message of a run that has to fail, and must not panic.
    #[track_caller]
    pub fn failure(self) -> String {
        assert!(!self.success, "succeeded: {}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        format!("{}{}", self.out, self.err)
    }
}

/// The command, ready for arguments.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saki"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG").env("HOME", std::env::temp_dir());
    command
}

/// Runs the command to its end.
pub fn saki<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Said {
    Said::of(command().args(arguments).output().expect("the command starts"))
}

/// Runs SQL on a database, as CSV.
pub fn sql(database: &Path, text: &str) -> Said {
    saki([
        OsStr::new("sql"),
        "--db".as_ref(),
        database.as_ref(),
        "--format".as_ref(),
        "csv".as_ref(),
        "-c".as_ref(),
        text.as_ref(),
    ])
}

pub fn check(database: &Path) -> Said {
    saki([OsStr::new("check"), database.as_ref()])
}

/// A directory of the test's own, and the path of a database in it.
pub fn scratch() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("test.saki");
    (directory, path)
}

/// A copy of a TPC-H database of scale factor 0.01. Loaded once: making its text takes longest.
pub fn tpch() -> (TempDir, PathBuf) {
    static LOADED: OnceLock<TempDir> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let (directory, path) = scratch();
        saki([OsStr::new("load"), "tpch".as_ref(), "--db".as_ref(), path.as_ref(), "--sf".as_ref(), "0.01".as_ref()])
            .answer();
        directory
    });
    let (directory, path) = scratch();
    std::fs::copy(loaded.path().join("test.saki"), &path).expect("the database can be copied");
    (directory, path)
}

/// Rows and quantities of lineitem in [`tpch`]'s database.
pub const LINES: &str = "SELECT count(*) AS n, sum(l_quantity) AS q FROM lineitem";

/// What [`LINES`] answers, counted from the generated rows without any database.
pub fn lines_expected() -> &'static str {
    static EXPECTED: OnceLock<String> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let table = saki::tpch::table("lineitem").expect("TPC-H has lineitem");
        let (mut rows, mut hundredths) = (0, 0);
        for batch in saki::tpch::batches(table, 0.01).expect("the scale is allowed") {
            let batch = batch.expect("rows are generated");
            rows += batch.num_rows();
            let quantities = batch.column_by_name("l_quantity").expect("lineitem has quantities");
            hundredths += quantities.as_primitive::<Decimal128Type>().values().iter().sum::<i128>();
        }
        format!("n,q\n{rows},{}.{:02}\n", hundredths / 100, hundredths % 100)
    })
}
