//! Writes the seeds as the corpus that `cargo fuzz` begins from: `saki-fuzz fuzz/corpus`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    for target in saki_fuzz::TARGETS {
        let directory = corpus.join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:03}")), seed)?;
        }
    }
    Ok(())
}
