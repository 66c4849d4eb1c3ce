//! From what was recovered to a running set of logs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Condvar, Mutex};

use crate::error::LogError;
use crate::options::Options;
use crate::recovery::{Recovered, RecoveredLog};
use crate::shared::{Counters, Log, Shared};
use crate::stream::{Geometry, Stream};
use crate::writer::Writer;

/// An incarnation about to begin: threads, or a simulation, drive the writers.
pub struct Started {
    pub shared: Arc<Shared>,
    pub writers: Vec<Writer>,
}

/// Opens a lane for each log and puts everything together.
pub fn start(options: Options, recovered: Recovered) -> Result<Started, LogError> {
    let Recovered { incarnation, cut, logs, report: _ } = recovered;
    let mut shared_logs = Vec::with_capacity(logs.len());
    let mut parts = Vec::with_capacity(logs.len());
    for (number, RecoveredLog { device, identity, extent_bytes, next_sequence, slots }) in logs.into_iter().enumerate()
    {
        let lane = device.open_lane(None).map_err(|error| LogError::Device { log: number, error })?;
        let geometry = Geometry {
            extent_bytes,
            write_bytes_max: options.write_bytes_max,
            buffer_bytes: options.buffer_bytes as u64,
        };
        shared_logs.push(Log {
            identity,
            device: device.name(),
            storage: Arc::downgrade(&device),
            extent_bytes,
            stream: Mutex::new(Stream::new(geometry, next_sequence)),
            room: Condvar::new(),
            waker: lane.waker(),
            durable_extent: AtomicU64::new(0),
            counters: Counters::default(),
        });
        parts.push((device, lane, slots));
    }
    let shared = Arc::new(Shared::new(options, incarnation, cut, shared_logs));
    let writer = |(log, (device, lane, slots))| Writer::new(Arc::clone(&shared), log, device, lane, slots);
    let writers = parts.into_iter().enumerate().map(writer).collect();
    Ok(Started { shared, writers })
}
