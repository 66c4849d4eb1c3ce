//! A connection's two directions: messages in, replies out, each through a buffer that is used again and again.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::failure::Result;
use crate::message::frontend::{message_bytes, packet_bytes};
use crate::metrics::Metrics;
use crate::stream::Stream;

/// Room that a read may fill.
const READ_BYTES: usize = 16 << 10;
/// What a client may send ahead while its statement runs; beyond, it waits.
const AHEAD_BYTES: usize = 256 << 10;
/// Buffers that a large message has grown are given back above this.
const KEPT_BYTES: usize = 256 << 10;
/// Replies that have gathered are sent from here on, without waiting for the end of the statement.
pub const SPILL_BYTES: usize = 64 << 10;

/// What the client says.
pub struct Reader {
    half: ReadHalf<Stream>,
    buffer: BytesMut,
    metrics: Arc<Metrics>,
}

/// What the client is told.
pub struct Writer {
    half: WriteHalf<Stream>,
    pub buffer: BytesMut,
    metrics: Arc<Metrics>,
}

/// Takes a stream apart. `read` was read from it already.
pub fn split(stream: Stream, read: BytesMut, metrics: &Arc<Metrics>) -> (Reader, Writer) {
    let (reading, writing) = tokio::io::split(stream);
    let reader = Reader { half: reading, buffer: read, metrics: Arc::clone(metrics) };
    (reader, Writer { half: writing, buffer: BytesMut::new(), metrics: Arc::clone(metrics) })
}

impl Reader {
    /// The next message if it is here already.
    ///
    /// # Errors
    /// A length that is none.
    pub fn buffered(&mut self, max: usize) -> Result<Option<BytesMut>> {
        Ok(message_bytes(&self.buffer, max)?.map(|length| self.buffer.split_to(length)))
    }

    /// The next message; `None` when the client has gone. Cancelling this loses nothing.
    ///
    /// # Errors
    /// A length that is none, or a broken connection.
    pub async fn message(&mut self, max: usize) -> Result<Option<BytesMut>> {
        loop {
            if let Some(message) = self.buffered(max)? {
                return Ok(Some(message));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// The kind of the message that comes next, if any of it is here.
    pub fn next_kind(&self) -> Option<u8> {
        self.buffer.first().copied()
    }

    /// Waits for more of what the client says; `false` when it has gone. Cancelling this loses nothing.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn more(&mut self) -> Result<bool> {
        Ok(self.read().await? > 0)
    }

    async fn read(&mut self) -> Result<usize> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ_BYTES);
        let read = self.half.read_buf(&mut self.buffer).await?;
        self.metrics.received.inc_by(read as u64);
        Ok(read)
    }

    /// Ends when the client has gone. What it says meanwhile is kept, up to a bound.
    pub async fn gone(&mut self) {
        while self.buffer.len() < AHEAD_BYTES {
            if !matches!(self.read().await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }
}

impl Writer {
    /// Sends what has gathered.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        // What is written leaves the buffer at once, so that nothing is sent twice if this is cancelled.
        while !self.buffer.is_empty() {
            let written = self.half.write_buf(&mut self.buffer).await?;
            self.metrics.sent.inc_by(written as u64);
        }
        self.half.flush().await?;
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
        Ok(())
    }

    /// Sends what has gathered, if it is much.
    ///
    /// # Errors
    /// A broken connection.
    pub async fn spill(&mut self) -> Result<()> {
        if self.buffer.len() >= SPILL_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Sends what has gathered, and says that nothing follows.
    pub async fn close(&mut self) {
        if self.flush().await.is_ok() {
            let _ = self.half.shutdown().await;
        }
    }
}

/// Reads the first packet of a connection, to its end and no further; `None` when the client has gone.
///
/// # Errors
/// A length that is none, or a broken connection.
pub async fn packet(stream: &mut Stream) -> Result<Option<BytesMut>> {
    let mut packet = BytesMut::with_capacity(512);
    let mut wanted = 4;
    loop {
        // Not a byte more: what follows may be for TLS.
        while packet.len() < wanted {
            let missing = wanted - packet.len();
            if stream.take(missing as u64).read_buf(&mut packet).await? == 0 {
                return Ok(None);
            }
        }
        match packet_bytes(&packet)? {
            Some(_) => return Ok(Some(packet)),
            None => {
                let length = packet.first_chunk().map_or(0, |length| u32::from_be_bytes(*length));
                wanted = length as usize;
            }
        }
    }
}
