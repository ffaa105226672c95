//! Power loss at any moment, and damage to what was synced: the store opens whole, or says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use fastrand::Rng;
use onceward_rig::crash::{
    Change, Fate, Image, Log, Recorder, Seen, Trial, Violation, Workload, Workshop, compare,
};
use onceward_rig::tally::Tally;
use tempfile::TempDir;

use crate::budget::Budget;

/// What processes did, one after the other, on one folder.
struct Recording {
    name: &'static str,
    path: PathBuf,
    log: Arc<Log>,
    /// The power is not cut before this.
    start: Trial,
    is_long: bool,
}

/// All recordings, for as long as a test needs them.
struct Recordings {
    all: Vec<Recording>,
    _folder: TempDir,
}

/// How an image is opened: by a power loss, or with damage on top of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    PowerLoss,
    Damage,
}

/// Names one image: `LOG:power:CUT:SEED` or `LOG:damage:CUT:SEED`.
const REPLAY: &str = "ONCEWARD_CRASH";
/// More than there are cores: opening a store is half waiting for its threads.
const THREADS: u64 = 4;
/// How much room a folder in memory has to have: without it, images go to a disk.
const ROOM: u64 = 1 << 30;

#[test]
fn power_loss_at_any_moment_loses_nothing_that_was_acknowledged() {
    let seen = prove("power loss: crash images", Trouble::PowerLoss, 75);
    // Every fate was met, and there was something to lose.
    for fate in ["lost", "kept", "mixed", "shuffled", "garbled"] {
        assert!(seen.count(fate) > 10, "{fate}: {seen:?}");
    }
    assert!(seen.images() > 1_000, "{seen:?}");
    assert!(seen.promised > 10 * seen.images(), "{seen:?}");
}

#[test]
fn damage_of_what_was_synced_is_never_silent() {
    let seen = prove("damage of synced data", Trouble::Damage, 15);
    for kind in ["flipped", "zeroed", "cut", "missing", "refused", "whole"] {
        assert!(seen.count(kind) > 10, "{kind}: {seen:?}");
    }
    assert!(seen.images() > 100, "{seen:?}");
}

#[test]
#[ignore = "repeats one image, which the environment names"]
fn replay() {
    let named = std::env::var(REPLAY).expect("the environment names an image");
    let parts: Vec<&str> = named.rsplitn(4, ':').collect();
    let [seed, cut, trouble, path] = parts[..] else {
        panic!("{REPLAY} is LOG:power:CUT:SEED or LOG:damage:CUT:SEED");
    };
    let trouble = match trouble {
        "power" => Trouble::PowerLoss,
        _ => Trouble::Damage,
    };
    let recording = Recording::read("replay", path.into());
    let mut trial = recording.start.clone();
    trial.advance(cut.parse().expect("a cut is a number"));
    let scratch = scratch();
    let mut workshop = Workshop::new(scratch.path()).expect("a workshop");
    let seed = seed.parse().expect("a seed is a number");
    let tried = trouble.meet(&trial, &mut workshop, seed, &mut Seen::default());
    if let Err(violation) = tried {
        recording.report(trouble, &violation);
    }
}

/// Fills a span with images, and records the row.
fn prove(proof: &str, trouble: Trouble, seconds: u64) -> Seen {
    let recordings = Recordings::shared();
    let recordings = &recordings.all;
    let budget = Budget::seconds(seconds);
    let first_seed = Rng::new().u64(..1 << 40);
    let next_seed = AtomicU64::new(first_seed);
    let next_first = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let open = || {
            let mut seen = Seen::default();
            let scratch = scratch();
            let mut workshop = Workshop::new(scratch.path()).expect("a workshop");
            let mut go = |recording: &Recording, budget| {
                let pass = Pass {
                    trouble,
                    recording,
                    budget,
                    seeds: &next_seed,
                };
                if let Err(violation) = pass.go(&mut workshop, &mut seen) {
                    is_over.store(true, Ordering::Relaxed);
                    recording.report(trouble, &violation);
                }
            };
            // Each is met once however slow the machine is.
            while let Some(recording) = recordings.get(next_first.fetch_add(1, Ordering::Relaxed)) {
                go(recording, None);
            }
            let mut turns: Vec<&Recording> = recordings.iter().collect();
            let mut turn = 1;
            while budget.lasts() && !is_over.load(Ordering::Relaxed) {
                Rng::with_seed(next_seed.fetch_add(1, Ordering::Relaxed)).shuffle(&mut turns);
                for recording in &turns {
                    // Long journals take as long as a hundred others.
                    if !recording.is_long || turn % 4 == 0 {
                        go(recording, Some(&budget));
                    }
                }
                turn += 1;
            }
            seen
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(open)).collect();
        for thread in threads {
            seen.merge(thread.join().expect("no promise is broken"));
        }
    });
    let seeds = first_seed..next_seed.load(Ordering::Relaxed);
    let mut kinds: Vec<String> = Vec::new();
    for (kind, count) in &seen.kinds {
        kinds.push(format!("{count} {kind}"));
    }
    for (recording, count) in &seen.recordings {
        kinds.push(format!("{count} of {recording}"));
    }
    for Recording { name, .. } in recordings {
        let met = seen.recordings.get(*name).copied().unwrap_or_default();
        assert!(met > 5, "{name} was hardly met: {seen:?}");
    }
    let note = format!("{}, {} records looked for", kinds.join(", "), seen.promised);
    println!("{proof}: {} images: {note}", seen.images());
    Tally::record(proof, seen.images(), Some(seeds), 0, &note);
    seen
}

/// One way through a log, with a power loss here and there.
struct Pass<'a> {
    trouble: Trouble,
    recording: &'a Recording,
    /// For how long it may go on; `None` is to the end.
    budget: Option<&'a Budget>,
    seeds: &'a AtomicU64,
}

// === impl Pass ===

impl Pass<'_> {
    /// How many images there are of one place.
    const AT_ONE_CUT: usize = 3;

    fn go(&self, workshop: &mut Workshop, seen: &mut Seen) -> Result<(), Violation> {
        let mut trial = self.recording.start.clone();
        let end = self.recording.log.changes.len();
        let cuts = if self.recording.is_long { 4 } else { 12 };
        let mut rng = Rng::with_seed(self.seeds.fetch_add(1, Ordering::Relaxed));
        let mut cuts = rng.choose_multiple(trial.at()..=end, cuts);
        cuts.sort_unstable();
        for cut in cuts {
            trial.advance(cut);
            for _ in 0..Self::AT_ONE_CUT {
                if self.budget.is_some_and(|budget| !budget.lasts()) {
                    return Ok(());
                }
                let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
                let before = seen.images();
                self.trouble.meet(&trial, workshop, seed, seen)?;
                if seen.images() > before {
                    seen.met(self.recording.name);
                }
            }
        }
        workshop.clear().expect("the shelf can be cleared");
        Ok(())
    }
}

// === impl Trouble ===

impl Trouble {
    fn meet(
        self,
        trial: &Trial,
        workshop: &mut Workshop,
        seed: u64,
        seen: &mut Seen,
    ) -> Result<(), Violation> {
        match self {
            Self::PowerLoss => trial.power_loss(workshop, seed, seen),
            Self::Damage => trial.damage(workshop, seed, seen).map(drop),
        }
    }
}

// === impl Recording ===

impl Recording {
    fn read(name: &'static str, path: PathBuf) -> Self {
        let log = Arc::new(Log::read(&path).expect("the log reads"));
        let mut start = Trial::new(Arc::clone(&log)).expect("its lines read");
        start.advance(log.begun.max(1));
        Self {
            name,
            path,
            log,
            start,
            is_long: false,
        }
    }

    /// Keeps a broken image, says how to see it again, and fails.
    fn report(&self, trouble: Trouble, violation: &Violation) -> ! {
        let Violation {
            cut,
            seed,
            kind,
            what,
            ..
        } = violation;
        let word = match trouble {
            Trouble::PowerLoss => "power",
            Trouble::Damage => "damage",
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("crash-{}-{cut}-{seed}", self.name));
        violation
            .keep(&self.path, &folder)
            .expect("the image can be kept");
        let log = folder.join("log");
        panic!(
            "{} after {cut} changes, {kind}: {what}\nthe image is in {}; again with\n  \
             {REPLAY}={}:{word}:{cut}:{seed} cargo test -p onceward-rig --all-features \
             --test proof crash::replay -- --ignored",
            self.name,
            folder.display(),
            log.display()
        );
    }
}

// === impl Recordings ===

impl Recordings {
    /// Those that another test has made, if it still needs them.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Recordings>> = Mutex::new(Weak::new());

        let mut shared = SHARED.lock().expect("recording went well");
        shared.upgrade().unwrap_or_else(|| {
            let folder = scratch();
            let recordings = Arc::new(Self {
                all: record_all(folder.path()),
                _folder: folder,
            });
            *shared = Arc::downgrade(&recordings);
            recordings
        })
    }
}

/// Records all kinds of work.
fn record_all(folder: &Path) -> Vec<Recording> {
    use Workload::{Commit, Create, Flush, Kill, Large, Repair, Rotate, Sweep};

    let library = Recorder::compile(folder).expect("a C compiler is there");
    let plans: [(&'static str, &[Workload]); 7] = [
        ("create", &[Create]),
        ("commit", &[Commit, Commit]),
        ("kill", &[Kill, Kill, Commit]),
        ("sweep", &[Sweep, Sweep]),
        ("large", &[Large, Create]),
        ("flush", &[Flush, Flush]),
        ("repair", &[Flush, Repair, Commit]),
    ];
    let mut recordings = Vec::new();
    for (name, sessions) in plans {
        let disk = folder.join(format!("{name}.disk"));
        recordings.push(record(&library, folder, name, sessions, &disk, &[]));
    }
    // Journals are long: only what happens around the change from one to the next is new.
    let disk = folder.join("rotate.disk");
    let mut rotated = record(&library, folder, "rotate", &[Rotate, Commit], &disk, &[]);
    let changes = &rotated.log.changes;
    let is_next = |it: &Change| matches!(it, Change::Create(_, path) if path.ends_with("/1.jnl"));
    let next = changes.iter().position(is_next);
    rotated.is_long = true;
    rotated
        .start
        .advance(next.expect("a journal was full") - 50);
    recordings.push(rotated);
    // What a power loss left, and what opening that does.
    let flushed = recordings.iter().find(|it| it.name == "flush");
    let (disk, said) = after_power_loss(flushed.expect("it was recorded"), folder);
    let sessions = &[Kill, Flush];
    recordings.push(record(&library, folder, "recovery", sessions, &disk, &said));
    recordings
}

fn record(
    library: &Path,
    folder: &Path,
    name: &'static str,
    sessions: &[Workload],
    disk: &Path,
    said: &[String],
) -> Recording {
    let path = folder.join(format!("{name}.log"));
    let program = Path::new(env!("CARGO_BIN_EXE_victim"));
    let recorder = Recorder::begin(library, program, disk, &path, said);
    let recorder = recorder.expect("a log is begun");
    for (seed, workload) in (1..).zip(sessions) {
        let status = recorder.run(*workload, seed).expect("the victim runs");
        assert_eq!(
            status.success(),
            *workload != Workload::Kill,
            "{name}, session {seed}: {status}"
        );
    }
    let recording = Recording::read(name, path);
    if sessions.last() != Some(&Workload::Kill) {
        let differ = compare(&recording.log, recorder.disk()).expect("the folder reads");
        assert!(differ.is_empty(), "{name}: not recorded: {differ:?}");
    }
    recording
}

/// Builds the image of a power loss in the middle of a log, to go on from there.
fn after_power_loss(recording: &Recording, folder: &Path) -> (PathBuf, Vec<String>) {
    let mut trial = recording.start.clone();
    let mut cut = recording.log.changes.len() / 2;
    trial.advance(cut);
    while trial.disk().is_settled() {
        cut += 1;
        trial.advance(cut);
    }
    let mut rng = Rng::with_seed(1);
    let image = Image::with_fate(trial.disk(), &recording.log, Fate::Mixed, &mut rng);
    let workshop = folder.join("recovery.disk");
    fs::create_dir(&workshop).expect("a folder");
    let workshop = Workshop::new(&workshop);
    let built = workshop.and_then(|mut workshop| workshop.build(trial.disk(), &image));
    (built.expect("the image is built"), trial.promise().lines())
}

/// A folder in memory where there is room: images are many, and none has to last.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |it| it.f_bavail * it.f_frsize);
    let folder = match room >= ROOM {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.expect("a folder for images")
}
