//! What the program was compiled for and the processor it runs on must have: a message instead of an illegal
//! instruction.

/// # Errors
/// What this processor lacks, and what to do.
pub fn check() -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    {
        let needed = [
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
            ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
            ("fma", std::arch::is_x86_feature_detected!("fma")),
        ];
        let missing: Vec<&str> = needed.iter().filter(|(_, there)| !there).map(|(name, _)| *name).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!(
                "this processor has no {missing}, which the program was built for; \
                 build it with the line target-cpu in .cargo/config.toml removed"
            ));
        }
    }
    Ok(())
}
