//! From a connection to a link that is up.

use std::time::Duration;

use super::core::{Link, Scene, Stage};
use crate::error::FabricError;
use crate::event::{Event, Peer};
use crate::stream::Stream;
use crate::wire::{Goodbye, Head, Hello, Kind, NONCE_BYTES, Proof, Transcript, Welcome};

impl Link {
    /// Calls the peer.
    pub fn call(&mut self, scene: &mut Scene<'_>) {
        let wire = match scene.transport.connect(&self.peer) {
            Ok(wire) => wire,
            Err(error) => return self.fail(error, scene),
        };
        if let Err(error) = scene.transport.watch(&*wire, self.id.0) {
            return self.fail(error, scene);
        }
        self.stream = Some(Stream::new(wire, &self.peer));
        self.writes_watched = true;
        let mine = greeting(scene);
        self.put(Kind::Hello, 0, &mine.encode());
        self.stage = Stage::Calling { mine, since: scene.now };
        self.heard_at = scene.now;
    }

    /// Since when a handshake is under way.
    pub fn shaking_since(&self) -> Option<Duration> {
        match &self.stage {
            Stage::Calling { since, .. }
            | Stage::Called { since }
            | Stage::Greeted { since, .. }
            | Stage::Proved { since, .. }
            | Stage::Attaching { since, .. } => Some(*since),
            Stage::Apart { .. } | Stage::Up | Stage::Ended => None,
        }
    }

    /// A frame that came before the link was up.
    pub fn shake(&mut self, head: Head, body: &[u8], scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let since = scene.now;
        // Where it stays if something is wrong: not up, and not ended before it is told.
        let stage = std::mem::replace(&mut self.stage, Stage::Called { since });
        match (stage, head.kind) {
            (Stage::Called { .. }, Kind::Hello) => {
                let theirs = self.said(Hello::decode(body), "greeting")?;
                self.check_greeting(&theirs, scene)?;
                let mine = greeting(scene);
                let proof = Transcript::new(&theirs, &mine).proof_of_called(&scene.options.key);
                self.put(Kind::Welcome, 0, &Welcome { hello: mine.clone(), proof }.encode());
                self.stage = Stage::Greeted { mine, theirs, since };
            }
            (Stage::Calling { mine, .. }, Kind::Welcome) => {
                let Welcome { hello: theirs, proof } = self.said(Welcome::decode(body), "welcome")?;
                self.check_greeting(&theirs, scene)?;
                let transcript = Transcript::new(&mine, &theirs);
                if !transcript.is_of_called(&scene.options.key, &proof) {
                    return Err(FabricError::Unauthenticated { peer: self.peer.clone() });
                }
                self.put(Kind::Proof, 0, &transcript.proof_of_caller(&scene.options.key).encode());
                self.stage = Stage::Proved { theirs, since };
                self.trust();
            }
            (Stage::Greeted { mine, theirs, .. }, Kind::Proof) => {
                let proof = self.said(Proof::decode(body), "proof")?;
                if !Transcript::new(&theirs, &mine).is_of_caller(&scene.options.key, &proof) {
                    return Err(FabricError::Unauthenticated { peer: self.peer.clone() });
                }
                self.trust();
                self.offer(theirs, scene)?;
            }
            (Stage::Proved { theirs, .. }, Kind::Attach) => {
                self.stage = Stage::Proved { theirs, since };
                let descriptor = self.stream.as_mut().and_then(Stream::descriptor);
                let arena = scene.options.arena.as_ref();
                let (told, direct) = scene.transport.attach_to(&self.peer, body, descriptor, arena)?;
                self.direct = Some(direct);
                self.put(Kind::Attached, 0, &told);
            }
            (Stage::Attaching { theirs, attachment, .. }, Kind::Attached) => {
                self.direct = Some(attachment.complete(&self.peer, body)?);
                self.up(theirs, scene);
                self.put(Kind::Ready, 0, &[]);
            }
            (Stage::Proved { theirs, .. }, Kind::Ready) => self.up(theirs, scene),
            (stage, Kind::Goodbye) => {
                self.stage = stage;
                return Err(self.goodbye(body, scene));
            }
            (stage, kind) => {
                self.stage = stage;
                return Err(FabricError::corrupt(&self.peer, format!("a frame {kind:?} in the middle of a handshake")));
            }
        }
        Ok(())
    }

    fn trust(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.trust();
        }
    }

    /// The caller is known: it is offered a direct way, if there is one.
    fn offer(&mut self, theirs: Hello, scene: &mut Scene<'_>) -> Result<(), FabricError> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let Some(attachment) = scene.transport.attach(stream.wire(), scene.options.arena.as_ref())? else {
            self.up(theirs, scene);
            self.put(Kind::Ready, 0, &[]);
            return Ok(());
        };
        let (offer, file) = attachment.offer();
        let file = file.map(|file| file.try_clone_to_owned()).transpose();
        let file = file.map_err(|error| FabricError::system("a file in memory is sent", &error))?;
        match (file, &mut self.stream) {
            (Some(file), Some(stream)) => stream.put_with_file(Kind::Attach, 0, &offer, file),
            _ => self.put(Kind::Attach, 0, &offer),
        }
        self.stage = Stage::Attaching { theirs, attachment, since: scene.now };
        Ok(())
    }

    fn up(&mut self, theirs: Hello, scene: &mut Scene<'_>) {
        self.stage = Stage::Up;
        self.told_down = false;
        self.taken_back_seen = scene.options.regions.taken_back();
        let Hello { node, incarnation, build, .. } = theirs;
        let peer = Peer { address: self.peer.clone(), node, incarnation, build };
        scene.events.push(Event::Up { link: self.id, peer });
    }

    fn check_greeting(&self, theirs: &Hello, scene: &Scene<'_>) -> Result<(), FabricError> {
        let ours = scene.options.version;
        if theirs.version != ours {
            let (peer, theirs, build) = (self.peer.clone(), theirs.version, theirs.build.clone());
            return Err(FabricError::Version { peer, ours, theirs, build });
        }
        if theirs.transport != scene.transport.number() {
            return Err(FabricError::corrupt(&self.peer, "the greeting of another transport"));
        }
        Ok(())
    }

    fn said<T>(&self, decoded: Option<T>, what: &str) -> Result<T, FabricError> {
        decoded.ok_or_else(|| FabricError::corrupt(&self.peer, format!("no {what} where one has to be")))
    }

    /// The peer ends the connection.
    pub fn goodbye(&self, body: &[u8], scene: &Scene<'_>) -> FabricError {
        let peer = self.peer.clone();
        match Goodbye::decode(body) {
            Some(Goodbye::Done) => FabricError::disconnected(&peer, "the peer closed it"),
            Some(Goodbye::Version { version, build }) => {
                FabricError::Version { peer, ours: scene.options.version, theirs: version, build }
            }
            Some(Goodbye::Unauthenticated) => FabricError::Unauthenticated { peer },
            Some(Goodbye::Full) => FabricError::disconnected(&peer, "the peer has all the links it may have"),
            Some(Goodbye::Corrupt) => FabricError::disconnected(&peer, "the peer could not make sense of it"),
            None => FabricError::corrupt(&peer, "a farewell without sense"),
        }
    }
}

fn greeting(scene: &Scene<'_>) -> Hello {
    let mut nonce = [0; NONCE_BYTES];
    scene.options.entropy.fill(&mut nonce);
    Hello {
        version: scene.options.version,
        transport: scene.transport.number(),
        node: scene.options.node,
        incarnation: scene.incarnation,
        nonce,
        build: scene.options.build.clone(),
    }
}
