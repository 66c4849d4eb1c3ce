//! One step of a link: what has come, what can go, and what is overdue.

use std::time::Duration;

use super::core::{Link, Scene, Stage};
use crate::error::FabricError;
use crate::event::Event;
use crate::wire::{Failure, Head, Kind};

/// Receptions from one wire before others have their turn.
const RECEPTIONS_AT_ONCE: usize = 4;
/// Messages from one ring likewise.
const MESSAGES_AT_ONCE: usize = 64;

impl Link {
    /// Takes what has come over the wire.
    pub fn hear(&mut self, scene: &mut Scene<'_>) {
        if let Err(error) = self.try_hear(scene) {
            self.fail(error, scene);
        }
    }

    fn try_hear(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        for _ in 0..RECEPTIONS_AT_ONCE {
            let Some(stream) = &mut self.stream else { return Ok(()) };
            if !stream.receive(&mut self.under_way)? {
                return Ok(());
            }
            self.heard_at = scene.now;
            while let Some(stream) = &mut self.stream {
                let Some((head, place)) = stream.next(&mut self.under_way)? else { break };
                match head.kind {
                    Kind::Data => self.read_ended(head.slot, Ok(()), scene)?,
                    Kind::Message if matches!(self.stage, Stage::Up) && self.direct.is_none() => {
                        let bytes = stream.body(place).to_vec();
                        scene.events.push(Event::Message { link: self.id, bytes });
                    }
                    _ => {
                        // Bodies of other frames are short.
                        let body = stream.body(place).to_vec();
                        self.frame(head, &body, scene)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn frame(&mut self, head: Head, body: &[u8], scene: &mut Scene<'_>) -> Result<(), FabricError> {
        if !self.is_up() {
            return self.shake(head, body, scene);
        }
        let refusal =
            || Failure::decode(body).ok_or_else(|| FabricError::corrupt(&self.peer, "a refusal without sense"));
        match head.kind {
            Kind::Open => self.grant(head, body, scene),
            Kind::Opened => self.opened(head, body, scene),
            Kind::Read => self.serve(head, body),
            Kind::Failed => self.not_read(head.slot, refusal()?, scene),
            Kind::NotOpened => self.not_opened(head.slot, refusal()?, scene),
            Kind::TakenBack => {
                self.taken_back(head.slot);
                Ok(())
            }
            Kind::Beat | Kind::Knock => Ok(()),
            Kind::Goodbye => Err(self.goodbye(body, scene)),
            kind => Err(FabricError::corrupt(&self.peer, format!("a frame {kind:?} on a link that is up"))),
        }
    }

    /// Takes what has come over the direct way, sets on its way what can be, and hands it to the wire.
    pub fn step(&mut self, scene: &mut Scene<'_>) {
        if let Err(error) = self.try_step(scene) {
            self.fail(error, scene);
        }
    }

    fn try_step(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        if let Some(direct) = self.direct.as_mut().filter(|_| matches!(self.stage, Stage::Up)) {
            let mut done = Vec::new();
            direct.reap(&mut done)?;
            for _ in 0..MESSAGES_AT_ONCE {
                let Some(bytes) = direct.receive()? else { break };
                self.heard_at = scene.now;
                scene.events.push(Event::Message { link: self.id, bytes });
            }
            for slot in done {
                self.heard_at = scene.now;
                self.read_ended(slot, Ok(()), scene)?;
            }
        }
        self.take_back(scene);
        self.advance(scene)?;
        self.flush(scene)
    }

    fn flush(&mut self, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if stream.queued_bytes() > 0 {
            self.spoke_at = scene.now;
            stream.flush()?;
        }
        let blocked = stream.queued_bytes() > 0;
        if blocked != self.writes_watched {
            self.writes_watched = blocked;
            scene.transport.watch_writes(stream.wire(), self.id.0, blocked)?;
        }
        Ok(())
    }

    /// What is due by now: calls, signs of life, deadlines.
    pub fn tick(&mut self, scene: &mut Scene<'_>) {
        if let Stage::Apart { call_at } = self.stage {
            if call_at <= scene.now {
                self.call(scene);
            }
            self.expire_waiting(scene);
            return;
        }
        if let Some(error) = self.overdue(scene) {
            return self.fail(error, scene);
        }
        if self.is_up() && scene.now >= self.spoke_at + scene.options.heartbeat {
            self.put(Kind::Beat, 0, &[]);
            self.step(scene);
        }
        if !self.is_up() {
            self.expire_waiting(scene);
        }
    }

    /// What the peer has not done in time. One operation past its deadline takes the link down: nobody can tell whether
    /// its bytes still come.
    fn overdue(&self, scene: &Scene<'_>) -> Option<FabricError> {
        let (now, after) = (scene.now, scene.options.deadline);
        let timeout = |what| Some(FabricError::Timeout { peer: self.peer.clone(), what, after });
        if self.shaking_since().is_some_and(|since| now >= since + after) {
            return timeout("say who it is");
        }
        if !self.is_up() {
            return None;
        }
        if now >= self.heard_at + after {
            return timeout("give a sign of life");
        }
        if self.sends.front().is_some_and(|sending| now >= sending.deadline) {
            return timeout("take messages");
        }
        let mut reads = self.under_way.slots.values().chain(self.reads.front());
        if reads.any(|reading| now >= reading.deadline) { timeout("let a region be read") } else { None }
    }

    /// Operations that have waited for a connection until their deadline.
    fn expire_waiting(&mut self, scene: &mut Scene<'_>) {
        let due = |deadline: Duration| scene.now >= deadline;
        let send = self.sends.front().is_some_and(|sending| due(sending.deadline));
        let read = self.reads.front().is_some_and(|reading| due(reading.deadline));
        if !send && !read {
            return;
        }
        let reason = self.last_error.as_ref().map_or("no answer".into(), ToString::to_string);
        let error = FabricError::Unreachable { peer: self.peer.clone(), reason };
        while let Some(sending) = self.sends.pop_front_if(|sending| sending.deadline <= scene.now) {
            self.sends_bytes -= sending.message.len();
            self.complete(sending.token, None, Err(error.clone()), scene);
        }
        while let Some(reading) = self.reads.pop_front_if(|reading| reading.deadline <= scene.now) {
            self.complete(reading.token, Some(reading.buffer), Err(error.clone()), scene);
        }
    }

    /// When `tick` has something to do next, if nothing happens before.
    pub fn next_tick(&self, scene_now: Duration, heartbeat: Duration) -> Duration {
        match self.stage {
            Stage::Apart { call_at } => call_at,
            Stage::Up => self.spoke_at + heartbeat,
            // Deadlines of handshakes need no precision.
            _ => scene_now + Duration::from_millis(50),
        }
    }

    /// Announces to the peer that this side sleeps; `false` if there is something to do.
    pub fn before_sleep(&mut self) -> bool {
        self.direct.as_mut().is_none_or(|direct| direct.before_sleep())
    }
}
