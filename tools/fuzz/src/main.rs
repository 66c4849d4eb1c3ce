//! Writes the seeds as the corpus that `cargo fuzz` begins from: into `fuzz/corpus` of this repository, or another
//! directory that is given.

use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let corpus = std::env::args().nth(1).map_or_else(of_this_repository, PathBuf::from);
    for target in saki_fuzz::TARGETS {
        let directory = corpus.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}

/// Wherever the command is run from.
fn of_this_repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}
