//! Devices that come and go while the volume is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saki_base::{DeviceId, GenerationNumber};

use super::BATCH;
use crate::blocking::BlockingIo;
use crate::device::Member;
use crate::device::admission::Admission;
use crate::durable::Durable;
use crate::error::VolumeError;
use crate::format::journal::Records;
use crate::format::table::{DEVICES_MAX, DeviceEntry, METADATA_MAX, Role};
use crate::places::Places;
use crate::places::label::{erase_label, label_of, write_label};
use crate::space::slots::Slots;
use crate::volume::profile::governor;
use crate::volume::{NewDevice, Volume, check_label, prepare};

/// How long a device that is removed is waited for, while reads of it end.
const REMOVE_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

fn refused<T>(what: impl Into<String>) -> Result<T, VolumeError> {
    Err(VolumeError::Refused { what: what.into() })
}

impl Volume {
    /// Makes a device part of the volume. If it takes homes and the metadata lies on one device only, it holds that
    /// too from now on.
    ///
    /// # Errors
    /// `AlreadyADatabase` if it belongs to one; of the devices. Then it is not part of the volume.
    pub fn add_device(&self, new: NewDevice) -> Result<DeviceId, VolumeError> {
        let _changing = self.changing.lock();
        check_label(&new.label)?;
        if self.members.table().iter().any(|entry| entry.label == new.label) {
            return refused(format!("{}: is a device of the database already", new.label));
        }
        let Some(number) = self.members.vacant() else {
            return refused(format!(
                "the database has had {DEVICES_MAX} devices since it was opened, which is all it can: open it again"
            ));
        };
        prepare(&new.device)?;
        let mut durable = self.durable.lock();
        let metadata =
            new.role.homes && self.members.table().iter().filter(|it| it.role.metadata).count() < METADATA_MAX;
        let entry = DeviceEntry {
            number,
            label: new.label.clone(),
            class: new.class,
            role: Role { metadata, draining: false, ..new.role },
            attached: GenerationNumber(durable.superblock.generation.0 + 1),
            slots_max: new.slots_max,
        };
        let slots = Slots::new(&new.device, new.slots_max, metadata)?;
        let admission = Admission::new(governor(&new.device, self.page_size())?);
        write_label(&mut BlockingIo::open(&new.device)?, label_of(&entry, self.database_id()))?;
        self.space.lock().put_shelf(number, entry.role, slots);
        self.members.put(Member { entry, device: Ok(Arc::clone(&new.device)), admission });
        if metadata {
            durable.add_seat(number, Arc::clone(&new.device));
        }
        if let Err(error) = self.publish_table(&mut durable) {
            if !matches!(error, VolumeError::PublishOutcomeUnknown { .. }) {
                self.forget(&mut durable, number, metadata);
                let _ = BlockingIo::open(&new.device).map(|mut io| erase_label(&mut io));
            }
            return Err(error);
        }
        if metadata {
            // Its other places are filled too.
            self.publish_table(&mut durable)?;
        }
        Ok(number)
    }

    /// Moves everything that is at home on a device to others, and gives nothing more to it. Takes as long as it takes;
    /// whoever reads is not held up. Returns how many chunks have moved.
    ///
    /// # Errors
    /// `Refused` if no other device takes homes; of the devices. What has not moved stays where it is, and may be read.
    pub fn drain_device(self: &Arc<Self>, number: DeviceId) -> Result<u64, VolumeError> {
        let _changing = self.changing.lock();
        let member = self.expect_member(number)?;
        if let Err(reason) = &member.device {
            let (device, reason) = (member.entry.label.clone(), reason.clone());
            return Err(VolumeError::MissingDevice { device, reason });
        }
        self.expect_other_homes(number)?;
        if !member.entry.role.draining {
            let role = Role { draining: true, ..member.entry.role };
            self.set_role(&mut self.durable.lock(), number, role)?;
        }
        let mut moved = 0;
        loop {
            self.close_tails(number)?;
            let homes = self.homes_on(number, BATCH);
            if homes.is_empty() {
                break;
            }
            moved += self.move_homes(&homes)? as u64;
        }
        self.drop_copies_on(number);
        Ok(moved)
    }

    /// Takes a device out of the volume. It must have no homes: drain it first. One that is missing may be removed too
    /// if nothing is at home there.
    ///
    /// # Errors
    /// `Refused` if it is still needed; of the devices.
    pub fn remove_device(&self, number: DeviceId) -> Result<(), VolumeError> {
        let _changing = self.changing.lock();
        let member = self.expect_member(number)?;
        let name = member.name();
        let homes = self.space.lock().device_slots(number).homes;
        if homes > 0 && member.device.is_err() {
            return refused(format!("{name}: {homes} MiB of the database lie there alone; bring it back"));
        }
        if homes > 0 {
            return refused(format!("{name}: {homes} MiB of the database lie there; drain it first"));
        }
        let holds_metadata = member.entry.role.metadata;
        self.expect_other_homes(number)?;
        if holds_metadata && !self.members.table().iter().any(|it| it.number != number && it.role.metadata) {
            return refused(format!("{name}: nothing else holds the database's superblocks; add a device first"));
        }
        self.space.lock().set_role(number, Role { draining: true, ..member.entry.role });
        self.drop_copies_on(number);
        if member.device.is_ok() {
            self.wait_until_unused(number, &name)?;
        }
        let mut durable = self.durable.lock();
        let seat = if holds_metadata { durable.remove_seat(number) } else { None };
        self.members.remove(number);
        // The journal names it, from when something was at home there.
        durable.renew();
        if member.device.is_err() && self.members.all().iter().all(|it| it.device.is_ok() || !it.entry.role.metadata) {
            durable.accept();
        }
        if let Err(error) = self.publish_table(&mut durable) {
            self.members.put(Member::clone(&member));
            self.members.written(number, 0);
            durable.put_back_seat(seat);
            return Err(error);
        }
        self.space.lock().drop_shelf(number);
        // Nor does the generation to which one could go back name it.
        self.publish_table(&mut durable)?;
        drop(durable);
        if let Ok(device) = &member.device {
            let erased = BlockingIo::open(device).map_err(VolumeError::from).and_then(|mut io| {
                erase_label(&mut io)?;
                if holds_metadata { Places::erase(&mut io) } else { Ok(()) }
            });
            if let Err(error) = erased {
                tracing::warn!("{name}: removed, but its label cannot be erased: {error}");
            }
        }
        Ok(())
    }

    /// The number of the device that has this label.
    pub fn device_labelled(&self, label: &str) -> Option<DeviceId> {
        self.members.table().into_iter().find(|entry| entry.label == label).map(|entry| entry.number)
    }

    fn expect_member(&self, number: DeviceId) -> Result<Arc<Member>, VolumeError> {
        let what = || format!("the database has no device {}", number.0);
        self.members.get(number).ok_or_else(|| VolumeError::Refused { what: what() })
    }

    fn expect_other_homes(&self, number: DeviceId) -> Result<(), VolumeError> {
        let takes_homes = |member: &Arc<Member>| {
            let Role { homes, draining, .. } = member.entry.role;
            member.entry.number != number && member.device.is_ok() && homes && !draining
        };
        match self.members.all().iter().any(takes_homes) {
            true => Ok(()),
            false => refused(format!(
                "{}: no other device of the database takes its data; add one first",
                self.name_of(number)
            )),
        }
    }

    fn set_role(&self, durable: &mut Durable, number: DeviceId, role: Role) -> Result<(), VolumeError> {
        let before = Member::clone(&*self.expect_member(number)?);
        let mut changed = before.clone();
        changed.entry.role = role;
        self.members.put(changed);
        self.space.lock().set_role(number, role);
        self.publish_table(durable).inspect_err(|_| {
            self.space.lock().set_role(number, before.entry.role);
            self.members.put(before);
        })
    }

    /// Publishes the devices as they are now.
    fn publish_table(&self, durable: &mut Durable) -> Result<(), VolumeError> {
        let failed_flushes = self.members.failed_flushes();
        self.publish_records(durable, Records::default(), self.members.table(), failed_flushes).map(drop)
    }

    fn forget(&self, durable: &mut Durable, number: DeviceId, metadata: bool) {
        if metadata {
            durable.remove_seat(number);
        }
        self.members.remove(number);
        self.space.lock().drop_shelf(number);
    }

    /// Has chunks of a device closed that a publication would go on writing.
    fn close_tails(self: &Arc<Self>, number: DeviceId) -> Result<(), VolumeError> {
        let is_there = {
            let durable = self.durable.lock();
            let space = self.space.lock();
            let of_tail = |chunk| space.chunks.get(&chunk).is_some_and(|state| state.location.device == number);
            durable.superblock.tails.iter().any(|tail| of_tail(tail.chunk))
        };
        if is_there {
            let publication = self.begin();
            let root = self.root();
            publication.commit(&root)?;
        }
        Ok(())
    }

    /// Waits until nothing of a device is in use but slot 0 and the journal.
    fn wait_until_unused(&self, number: DeviceId, name: &str) -> Result<(), VolumeError> {
        let began = Instant::now();
        loop {
            let journal = self.durable.lock().journal_slots().filter(|slot| slot.device == number).count() as u64;
            let awaits_superblock = {
                let mut space = self.space.lock();
                space.reclaim();
                if space.used_slots(number) <= 1 + journal {
                    return Ok(());
                }
                space.awaits_superblock()
            };
            if awaits_superblock {
                self.publish_again()?;
            }
            if began.elapsed() > REMOVE_PATIENCE {
                return refused(format!(
                    "{name}: statements that began some time ago, or temporary data, still need it; try again later"
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }
}
