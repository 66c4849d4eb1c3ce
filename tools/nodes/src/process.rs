//! A second process, as another run of this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that has printed where it listens; its end is that of this value.
pub struct Process {
    child: Option<Child>,
    pub address: String,
}

impl Process {
    /// One that somebody else has started, on another host perhaps.
    pub fn elsewhere(address: &str) -> Self {
        Self { child: None, address: address.into() }
    }

    /// Starts this program with other arguments, and waits for its first line.
    pub fn start(arguments: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the second process does not start: {error}"))?;
        let mut address = String::new();
        let output = child.stdout.take().ok_or("the second process has no output")?;
        let read = BufReader::new(output).read_line(&mut address);
        let started = Self { child: Some(child), address: address.trim().into() };
        match read {
            Ok(count) if count > 0 => Ok(started),
            _ => Err(format!("the second process ended at once: {}", arguments.join(" "))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Its input ends, and so does it.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// Where a process of this machine may listen.
pub fn listen_at(transport: &str, what: &str) -> String {
    match transport {
        "shm" => {
            let name = format!("saki-{what}-{}.sock", std::process::id());
            std::env::temp_dir().join(name).to_string_lossy().into_owned()
        }
        // A device that is emulated has no address of the loop.
        "verbs" => format!("{}:0", std::env::var("SELF_IP").unwrap_or_else(|_| "127.0.0.1".into())),
        _ => "127.0.0.1:0".into(),
    }
}
