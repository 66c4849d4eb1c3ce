//! A device that fails and is well again.
//!
//! ```text
//!   failure ──► nothing more is submitted ──► quiet ──► pause ──► what failed is written again ──► flush ──► well
//!                                               ▲                                               │ failure
//!                                               └───────────────────────────────────────────────┘ until patience ends
//! ```
//!
//! A write that failed is done again. After a flush that failed, a system may have dropped what it was to make
//! durable, and say so only once: a later flush that succeeds proves nothing about it. So then all frames and headers
//! of which no flush has told are written again, the same bytes at the same places, and only a flush of all of them
//! together counts. Nobody was told that they are durable, and until then nobody is: commits wait, none is lost, and
//! none has to be undone. No frame is overwritten that was durable.
//!
//! When patience ends, or where there is no hope, the logs fail as a whole. Then it is not known whether what waits
//! is on the device.

use std::time::{Duration, Instant};

use saki_io::{DeviceError, Wait};

use super::ailment::{Ailment, State};
use super::{FrameState, IDLE, Writer};
use crate::slots::Preparation;

/// The second pause, after a first try without one; then twice as long each time, up to the longest.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_DOUBLINGS: u32 = 8;

impl Writer {
    /// Takes note of a failure.
    ///
    /// # Errors
    /// The failure, if it is not worth waiting for its end any longer.
    pub(super) fn ails(&mut self, error: DeviceError) -> Result<(), DeviceError> {
        let (now, patience) = (Instant::now(), self.shared.options.patience);
        let hopeless = !matches!(error, DeviceError::Failed { .. } | DeviceError::Full { .. });
        if hopeless || patience.is_zero() {
            return Err(error);
        }
        match &mut self.ailment {
            None => {
                tracing::warn!("log {}: {error}; what is not durable is written again, commits wait", self.log);
                self.ailment = Some(Ailment { since: now, tries: 0, in_doubt: false, state: State::TryAt(now) });
            }
            Some(ailment) if ailment.state == State::Trying => {
                if now.duration_since(ailment.since) >= patience {
                    return Err(error);
                }
                ailment.state = State::TryAt(now + PAUSE * (1 << ailment.tries.min(PAUSE_DOUBLINGS)));
                ailment.tries += 1;
            }
            // Of the same time as the one before.
            Some(_) => {}
        }
        Ok(())
    }

    /// Whether something may be submitted. After a failure not before all that is under way has ended, so that it is
    /// known what has to be written again.
    pub(super) fn may_submit(&mut self) -> bool {
        let Some(Ailment { state: State::TryAt(time), .. }) = self.ailment else { return true };
        if self.lane.in_flight() > 0 || Instant::now() < time {
            return false;
        }
        let ailment = self.ailment.as_mut().expect("just seen");
        ailment.state = State::Trying;
        if std::mem::take(&mut ailment.in_doubt) {
            self.frames.iter_mut().for_each(|frame| frame.state = FrameState::Due);
            let lost = self.slots.prepared_mut().filter(|prepared| prepared.state != Preparation::Durable);
            lost.for_each(|prepared| prepared.state = Preparation::Due);
            self.headers_written = false;
        }
        true
    }

    /// A flush has failed.
    pub(super) fn flush_failed(&mut self, error: DeviceError) -> Result<(), DeviceError> {
        self.ails(error)?;
        self.ailment.as_mut().expect("just noted").in_doubt = true;
        Ok(())
    }

    /// How long to wait while something is wrong; `None` if all is well.
    pub(super) fn pause(&self) -> Option<Wait> {
        match self.ailment.as_ref()?.state {
            _ if self.lane.in_flight() > 0 => Some(Wait::AtMost(IDLE)),
            State::TryAt(time) => Some(Wait::AtMost(time.saturating_duration_since(Instant::now()))),
            State::Trying => Some(Wait::No),
        }
    }

    /// Something has become durable: if nothing is left of what failed, all is well again.
    pub(super) fn heals(&mut self) {
        let is_well = self.frames.is_empty();
        if let Some(ailment) = self.ailment.take_if(|ailment| is_well && ailment.state == State::Trying) {
            let seconds = ailment.since.elapsed().as_secs_f64();
            tracing::warn!("log {}: well again after {seconds:.3} s; nothing was lost", self.log);
        }
    }
}
