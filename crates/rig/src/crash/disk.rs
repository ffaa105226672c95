//! The disk under a recorded process: what is durable at some point of its log, and what is not.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::log::{Change, Log};
use super::sessions::without_zeros;

/// A file system at one point of a log.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Files and folders, of which only files hold something.
    nodes: Vec<Option<FileNode>>,
    by_inode: HashMap<u64, usize>,
    /// Which names are on the disk whatever happens, and which the process sees.
    durable: Names,
    live: Names,
    /// Names that no sync has made durable yet, in the order they changed.
    pub(super) names: Vec<Naming>,
    /// Syncs under way: when each began.
    syncing: HashMap<u64, usize>,
    at: usize,
}

/// What is called how in which folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    folders: BTreeMap<usize, BTreeMap<String, usize>>,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    /// What is on the disk whatever happens.
    pub(super) durable: Content,
    /// What the process reads.
    pub(super) live: Content,
    /// What lies between the two.
    pub(super) pending: Vec<(usize, Edit)>,
    /// How often it was made durable: tells its states apart.
    pub(super) version: u32,
    /// How many bytes were durable before the last sync that added any.
    pub(super) before_last: usize,
}

/// The bytes of a file, without the zeros behind the last of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Content {
    /// Shared, because journals are long and images are many.
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) size: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Edit {
    Write(u64, Range<usize>),
    Resize(u64),
}

/// A change of names that is made as a whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    at: usize,
    /// The file or folder was created by this.
    creates: Option<usize>,
    /// (folder, name, what it was called): gone after it.
    gone: Vec<(usize, String, usize)>,
    /// (folder, name, what is called so): there after it.
    there: Vec<(usize, String, usize)>,
}

// === impl Disk ===

impl Disk {
    /// The empty folder with which a log begins.
    pub fn new(log: &Log) -> Self {
        let mut disk = Self::default();
        disk.add(log.root, None);
        disk
    }

    /// Goes on by one change.
    ///
    /// # Panics
    ///
    /// Panics if the change cannot follow those before it: something was not recorded.
    pub fn apply(&mut self, log: &Log, change: &Change) {
        self.at += 1;
        match change {
            Change::Create(inode, path) => {
                let node = self.add(*inode, Some(FileNode::default()));
                self.create(path, node);
            }
            Change::Folder(inode, path) => {
                let node = self.add(*inode, None);
                self.create(path, node);
            }
            Change::Link(inode, path) => {
                let (folder, name) = self.locate(path);
                let node = self.node(*inode);
                self.rename(None, vec![], vec![(folder, name, node)]);
            }
            Change::Unlink(path) => {
                let (folder, name) = self.locate(path);
                let node = self.called(folder, &name);
                self.rename(None, vec![(folder, name, node)], vec![]);
            }
            Change::Rename(old, new) => {
                let ((from, old), (to, new)) = (self.locate(old), self.locate(new));
                let node = self.called(from, &old);
                self.rename(None, vec![(from, old, node)], vec![(to, new, node)]);
            }
            Change::Swap(one, other) => {
                let ((a, one), (b, other)) = (self.locate(one), self.locate(other));
                let (was_a, was_b) = (self.called(a, &one), self.called(b, &other));
                self.rename(None, vec![], vec![(a, one, was_b), (b, other, was_a)]);
            }
            Change::Write(inode, at, bytes) => {
                self.edit(log, *inode, Edit::Write(*at, bytes.clone()));
            }
            Change::Resize(inode, size) => self.edit(log, *inode, Edit::Resize(*size)),
            Change::Syncing(_, ticket) => drop(self.syncing.insert(*ticket, self.at)),
            Change::Synced(inode, ticket) => {
                let began = self.syncing.remove(ticket).expect("a sync begins");
                self.sync(log, self.node(*inode), began);
            }
            Change::Said(_) => {}
        }
    }

    /// Whether a cut here can leave anything to chance.
    pub fn is_settled(&self) -> bool {
        let mut files = self.nodes.iter().flatten();
        self.names.is_empty() && files.all(|file| file.pending.is_empty())
    }

    /// The names there are if those of the open changes happened that `kept` says.
    pub(super) fn names(&self, mut kept: impl FnMut(usize) -> bool) -> Names {
        let mut names = self.durable.clone();
        for (at, naming) in self.names.iter().enumerate() {
            if kept(at) {
                names.apply(naming);
            }
        }
        names
    }

    /// Every file as the process sees it: its size, and its bytes without the zeros behind them.
    pub(super) fn read(&self) -> BTreeMap<String, (u64, Vec<u8>)> {
        let mut files = BTreeMap::new();
        let mut folders = vec![(Names::ROOT, String::new())];
        while let Some((folder, path)) = folders.pop() {
            for (name, node) in self.live.of(folder) {
                let below = format!("{path}{name}");
                match self.file(*node) {
                    None => folders.push((*node, format!("{below}/"))),
                    Some(file) => {
                        let bytes = without_zeros(file.live.bytes.to_vec());
                        files.insert(below, (file.live.size, bytes));
                    }
                }
            }
        }
        files
    }

    /// The file `node`; `None` if that is a folder.
    pub(super) fn file(&self, node: usize) -> Option<&FileNode> {
        self.nodes[node].as_ref()
    }

    fn add(&mut self, inode: u64, node: Option<FileNode>) -> usize {
        self.nodes.push(node);
        self.by_inode.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn node(&self, inode: u64) -> usize {
        let node = self.by_inode.get(&inode);
        *node.expect("what is changed was created, or there at the beginning")
    }

    fn locate(&self, path: &str) -> (usize, String) {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parts = folder.split('/').filter(|part| !part.is_empty());
        let folder = parts.fold(Names::ROOT, |folder, part| self.called(folder, part));
        (folder, name.to_owned())
    }

    fn called(&self, folder: usize, name: &str) -> usize {
        let node = self.live.of(folder).get(name);
        *node.unwrap_or_else(|| panic!("there is no {name}"))
    }

    fn create(&mut self, path: &str, node: usize) {
        let (folder, name) = self.locate(path);
        self.rename(Some(node), vec![], vec![(folder, name, node)]);
    }

    fn rename(
        &mut self,
        creates: Option<usize>,
        gone: Vec<(usize, String, usize)>,
        there: Vec<(usize, String, usize)>,
    ) {
        let naming = Naming {
            at: self.at,
            creates,
            gone,
            there,
        };
        self.live.apply(&naming);
        self.names.push(naming);
    }

    fn edit(&mut self, log: &Log, inode: u64, edit: Edit) {
        let (at, node) = (self.at, self.node(inode));
        let file = self.nodes[node].as_mut().expect("only files are written");
        file.live.apply(log, &edit);
        file.pending.push((at, edit));
    }

    fn sync(&mut self, log: &Log, node: usize, began: usize) {
        let is_folder = self.nodes[node].is_none();
        self.names.retain(|naming| {
            let is_about = match is_folder {
                true => naming.touches(node),
                false => naming.creates == Some(node),
            };
            let is_durable = is_about && naming.at <= began;
            if is_durable {
                self.durable.apply(naming);
            }
            !is_durable
        });
        if let Some(file) = &mut self.nodes[node] {
            file.sync(log, began);
        }
    }
}

// === impl FileNode ===

impl FileNode {
    fn sync(&mut self, log: &Log, began: usize) {
        let ready = self.pending.partition_point(|(at, _)| *at <= began);
        if ready == 0 {
            return;
        }
        let len = self.durable.bytes.len();
        for (_, edit) in self.pending.drain(..ready) {
            self.durable.apply(log, &edit);
        }
        self.version += 1;
        if self.durable.bytes.len() != len {
            self.before_last = len;
        }
    }
}

// === impl Content ===

impl Content {
    pub(super) fn apply(&mut self, log: &Log, edit: &Edit) {
        match edit {
            Edit::Write(at, range) => self.write(*at as usize, log.bytes(range)),
            Edit::Resize(size) => self.resize(*size),
        }
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        let own = Arc::make_mut(&mut self.bytes);
        if own.len() < end {
            own.resize(end, 0);
        }
        own[at..end].copy_from_slice(bytes);
        self.size = self.size.max(end as u64);
    }

    pub(super) fn resize(&mut self, size: u64) {
        self.size = size;
        if size >= self.bytes.len() as u64 {
            return;
        }
        Arc::make_mut(&mut self.bytes).truncate(usize::try_from(size).unwrap_or(usize::MAX));
    }

    /// The bytes in a stretch, as far as there are any.
    pub(super) fn stretch(&self, range: Range<usize>) -> &[u8] {
        let end = range.end.min(self.bytes.len());
        self.bytes.get(range.start..end).unwrap_or_default()
    }
}

// === impl Naming ===

impl Naming {
    fn touches(&self, folder: usize) -> bool {
        let mut all = self.gone.iter().chain(&self.there);
        all.any(|(it, ..)| *it == folder)
    }
}

// === impl Names ===

impl Names {
    /// The root of all folders.
    pub(super) const ROOT: usize = 0;

    /// What is in the folder `node`.
    pub(super) fn of(&self, node: usize) -> &BTreeMap<String, usize> {
        static NOTHING: BTreeMap<String, usize> = BTreeMap::new();
        self.folders.get(&node).unwrap_or(&NOTHING)
    }

    /// Drops every name of `node`.
    pub(super) fn forget(&mut self, node: usize) {
        for names in self.folders.values_mut() {
            names.retain(|_, it| *it != node);
        }
    }

    fn apply(&mut self, naming: &Naming) {
        for (folder, name, node) in &naming.gone {
            let names = self.folders.entry(*folder).or_default();
            // What came there since under the same name is something else.
            if names.get(name) == Some(node) {
                names.remove(name);
            }
        }
        for (folder, name, node) in &naming.there {
            let names = self.folders.entry(*folder).or_default();
            names.insert(name.clone(), *node);
        }
    }
}
