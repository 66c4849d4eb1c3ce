//! The process that lends, answers and sends back.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use saki_base::bytes::u32_at;
use saki_base::{Arena, ArenaFrame};
use saki_fabric::{Event, RegionKey};
use saki_io::Wait;

use crate::world::{KEY, PAGE, fill, open};

/// Bytes of the frames that the region is made of.
const FRAME_BYTES: usize = 64 << 10;

#[derive(Args, Clone, Debug)]
pub struct PeerOptions {
    /// tcp, shm or verbs
    #[arg(long)]
    pub transport: String,
    /// Where to listen: host:port, or the path of a socket
    #[arg(long)]
    pub listen: String,
    /// MiB to lend
    #[arg(long, default_value_t = 64)]
    pub megabytes: u32,
    /// Seconds to serve; without it, until the standard input ends
    #[arg(long)]
    pub seconds: Option<u64>,
}

/// Lends a region and serves until it is told to end. Prints the address once it listens.
///
/// # Errors
/// If it cannot listen.
pub fn serve(options: &PeerOptions) -> Result<(), String> {
    let mut port = open(&options.transport, 1, |_| {})?;
    let frames = options.megabytes.max(1) * (1 << 20) / FRAME_BYTES as u32;
    let (arena, mut frames) = Arena::shared(frames, FRAME_BYTES).map_err(|error| error.to_string())?;
    for frame in &mut frames {
        let offset = u64::from(frame.index()) * FRAME_BYTES as u64;
        fill(frame, offset);
    }
    let key = port.regions().lend(&arena);
    let address = port.listen(&options.listen).map_err(|error| error.to_string())?;
    println!("{address}");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let ended = Arc::new(AtomicBool::new(false));
    let (flag, waker, seconds) = (Arc::clone(&ended), port.waker(), options.seconds);
    std::thread::spawn(move || {
        wait_for_end(seconds);
        flag.store(true, Ordering::Release);
        waker.wake();
    });
    let mut events = Vec::new();
    while !ended.load(Ordering::Acquire) {
        port.poll(Wait::AtMost(Duration::from_millis(100)), &mut events);
        for event in events.drain(..) {
            if let Event::Message { link, bytes } = event {
                port.send(link, 0, answer(bytes, &key, &frames));
            }
        }
    }
    Ok(())
}

/// Until the time is over or, without one, whoever started this process is done with it.
pub fn wait_for_end(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => std::thread::sleep(Duration::from_secs(seconds)),
        None => _ = std::io::stdin().read_to_end(&mut Vec::new()),
    }
}

fn answer(message: Vec<u8>, key: &RegionKey, frames: &[ArenaFrame]) -> Vec<u8> {
    match message.first() {
        Some(&KEY) => key.to_bytes().to_vec(),
        Some(&PAGE) => {
            let number = u32_at(&message, 1).unwrap_or(0);
            let bytes = u32_at(&message, 5).unwrap_or(0).clamp(1, FRAME_BYTES as u32) as usize;
            let offset = number as usize * bytes % (frames.len() * FRAME_BYTES);
            let within = offset % FRAME_BYTES;
            // Pages are powers of two, so none lies in two frames.
            frames[offset / FRAME_BYTES][within..].iter().take(bytes).copied().collect()
        }
        _ => message,
    }
}
