//! A reader as its owner knows it: what it waits for, and what it has.

use std::collections::VecDeque;
use std::sync::Arc;

use saki_page::IoShare;

use crate::wire::{AnswerBatch, Ask};

/// A reader's link.
pub struct Guest {
    /// Its address, and its node.
    pub name: String,
    pub entered: bool,
    pub waiting: VecDeque<Ask>,
    /// Frames that are being read into for it.
    pub reading: usize,
    /// Frames that it may be reading.
    pub lent: usize,
    pub answers: AnswerBatch,
    /// Its part of what devices allow.
    pub share: Arc<IoShare>,
}

impl Guest {
    pub fn new(name: String) -> Self {
        Self {
            name,
            entered: false,
            waiting: VecDeque::new(),
            reading: 0,
            lent: 0,
            answers: AnswerBatch::default(),
            share: IoShare::new(u32::MAX),
        }
    }

    /// Frames that are used for it.
    pub fn frames(&self) -> usize {
        self.reading + self.lent
    }

    /// Pages that it has asked for and not freed.
    pub fn requests(&self) -> usize {
        self.waiting.len() + self.frames()
    }
}
