//! Which item uses which: names are resolved as the compiler does, without types.

use crate::Kernel;
use crate::items::{Item, Kind, declared, imports, items, path};
use crate::tokens::{behind_group, is_name, tokens};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Imports of imports that are followed; more are a circle.
const MAX_IMPORTS: usize = 16;

/// The version of our crates, all of them.
const OUR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Item(usize),
    Module(usize),
    /// Something imported, by its path.
    Import(Vec<String>),
    /// Something of a foreign crate or of the standard library.
    Foreign(String),
}

impl Name {
    fn item(self) -> Option<usize> {
        if let Name::Item(item) = self { Some(item) } else { None }
    }
}

struct Module {
    path: String,
    file: PathBuf,
    parent: usize,
    root: usize,
    names: BTreeMap<String, Vec<Name>>,
    /// Names that occur in calls of macros: perhaps declared there.
    perhaps: BTreeMap<String, Vec<Name>>,
    globs: Vec<Vec<String>>,
    calls: Vec<usize>,
    traits: Vec<usize>,
}

struct Declared {
    item: Item,
    module: usize,
    /// Functions of a trait.
    functions: BTreeSet<String>,
    /// What is ours in the head of an `impl`.
    head: Vec<usize>,
    /// What it uses, once that was asked.
    uses: OnceCell<Uses>,
}

/// What one item uses.
#[derive(Default)]
struct Uses {
    items: BTreeSet<usize>,
    foreign: BTreeSet<String>,
    included: BTreeSet<PathBuf>,
    /// Every name in it, and modules that stand alone.
    words: BTreeSet<String>,
    modules: BTreeSet<usize>,
    macros: BTreeSet<usize>,
}

pub(crate) struct Graph {
    modules: Vec<Module>,
    declared: Vec<Declared>,
    /// Our crates, by their names in paths.
    crates: BTreeMap<String, usize>,
    locked: BTreeMap<String, String>,
    read: Vec<PathBuf>,
}

impl Graph {
    pub(crate) fn load(manifest: &Path, target: &Path) -> io::Result<Graph> {
        let text = fs::read_to_string(manifest.join("Cargo.toml"))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or("\"\"");
        let (crates, locked) = (BTreeMap::new(), BTreeMap::new());
        let mut graph = Graph { modules: Vec::new(), declared: Vec::new(), crates, locked, read: Vec::new() };
        // The lock file of whoever builds, else the one this crate came with; both know this crate.
        let ours = format!("name = {name}\n");
        let starts = [target, manifest].into_iter().filter_map(|start| start.canonicalize().ok());
        let mut locks =
            starts.flat_map(|start| start.ancestors().map(|dir| dir.join("Cargo.lock")).collect::<Vec<_>>());
        let known = |lock: &PathBuf| {
            fs::read_to_string(lock)
                .ok()
                .map(|text| text.replace("\r\n", "\n"))
                .filter(|text| text.contains(&ours))
        };
        if let Some((text, lock)) = locks.find_map(|lock| Some((known(&lock)?, lock))) {
            graph.locked = locked_versions(&text);
            graph.read.push(lock);
        }
        graph.load_crate(&name.trim_matches('"').replace('-', "_"), manifest)?;
        for at in 0..graph.declared.len() {
            let Declared { item, module, .. } = &graph.declared[at];
            let module = *module;
            match &item.kind {
                Kind::Impl(paths) => {
                    let head = paths.iter().flat_map(|path| graph.resolve(module, path, 0));
                    graph.declared[at].head = head.filter_map(Name::item).collect();
                }
                // What a macro declares, it declares where it is called.
                Kind::Call => {
                    let called =
                        graph.called(module, &path(&item.tokens, 0).0).into_iter().filter_map(Name::item);
                    let names = called.flat_map(|called| declared(&graph.declared[called].item.tokens));
                    for name in names.cloned().collect::<Vec<_>>() {
                        graph.modules[module].perhaps.entry(name).or_default().push(Name::Item(at));
                    }
                }
                _ => (),
            }
        }
        for at in 0..graph.modules.len() {
            graph.modules[at].traits = graph.traits(at);
        }
        Ok(graph)
    }

    /// What was read: files and folders.
    pub(crate) fn read(&self) -> &[PathBuf] {
        &self.read
    }

    /// Loads a crate and those of ours beside it that it names.
    fn load_crate(&mut self, name: &str, dir: &Path) -> io::Result<()> {
        let (file, first) = (dir.join("src/lib.rs"), self.modules.len());
        let text = fs::read_to_string(&file)?;
        self.read.push(dir.join("src"));
        self.crates.insert(name.to_string(), first);
        self.load_module(name.to_string(), file, None, tokens(&text))?;
        let words = self.modules[first..].iter().flat_map(|module| module.names.values().flatten());
        let imported =
            words.filter_map(|name| if let Name::Import(path) = name { path.first() } else { None });
        let spelled = self.declared.iter().flat_map(|declared| &declared.item.tokens);
        let named: BTreeSet<String> =
            imported.chain(spelled).filter(|word| word.starts_with("trimtab_")).cloned().collect();
        for other in named {
            let dashed = other.replace('_', "-");
            // Where Cargo unpacks crates, folders carry versions; ours have one for all.
            let places =
                [dashed.clone(), format!("{dashed}-{OUR_VERSION}")].map(|name| dir.join("..").join(name));
            let found = places.into_iter().find(|place| place.join("src/lib.rs").exists());
            if let Some(place) = found.filter(|_| !self.crates.contains_key(&other)) {
                self.load_crate(&other, &place)?;
            }
        }
        Ok(())
    }

    fn load_module(
        &mut self,
        path: String,
        file: PathBuf,
        parent: Option<usize>,
        tokens: Vec<String>,
    ) -> io::Result<usize> {
        let at = self.modules.len();
        let root = parent.map_or(at, |parent| self.modules[parent].root);
        self.modules.push(Module {
            path: path.clone(),
            file: file.clone(),
            parent: parent.unwrap_or(at),
            root,
            names: BTreeMap::new(),
            perhaps: BTreeMap::new(),
            globs: Vec::new(),
            calls: Vec::new(),
            traits: Vec::new(),
        });
        for item in items(&tokens) {
            match &item.kind {
                Kind::Mod(name, inside) => {
                    let (child, tokens) = match inside {
                        Some(tokens) => (file.clone(), tokens.clone()),
                        None => child_file(&file, name)?,
                    };
                    let child = self.load_module(format!("{path}::{name}"), child, Some(at), tokens)?;
                    self.name(at, name, Name::Module(child));
                    continue;
                }
                Kind::Use(imported) => {
                    for (name, path) in imported {
                        match name.as_str() {
                            "*" => self.modules[at].globs.push(path.clone()),
                            name => self.name(at, name, Name::Import(path.clone())),
                        }
                    }
                    continue;
                }
                _ => (),
            }
            let number = self.declared.len();
            let mut functions = BTreeSet::new();
            match &item.kind {
                Kind::Named(name) => self.name(at, name, Name::Item(number)),
                Kind::Trait(name) => {
                    self.name(at, name, Name::Item(number));
                    functions.extend(
                        item.tokens.windows(2).filter(|two| two[0] == "fn").map(|two| two[1].clone()),
                    );
                }
                Kind::Macro(name) => {
                    self.name(at, name, Name::Item(number));
                    // Found by whatever comes after it; at the root if exported.
                    self.modules[root].perhaps.entry(name.clone()).or_default().push(Name::Item(number));
                }
                Kind::Call => {
                    self.modules[at].calls.push(number);
                    for two in item
                        .tokens
                        .windows(2)
                        .filter(|two| is_name(&two[0]) && !matches!(two[1].as_str(), ":" | "!"))
                    {
                        self.modules[at].perhaps.entry(two[0].clone()).or_default().push(Name::Item(number));
                    }
                }
                Kind::Impl(_) | Kind::Use(_) | Kind::Mod(..) => (),
            }
            self.declared.push(Declared {
                item,
                module: at,
                functions,
                head: Vec::new(),
                uses: OnceCell::new(),
            });
        }
        Ok(at)
    }

    fn name(&mut self, module: usize, name: &str, stands_for: Name) {
        self.modules[module].names.entry(name.to_string()).or_default().push(stands_for);
    }

    /// What a path stands for in a module: several things where a name has several meanings.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Vec<Name> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut found = match first.as_str() {
            "crate" => vec![Name::Module(self.modules[module].root)],
            "self" => vec![Name::Module(module)],
            "super" => vec![Name::Module(self.modules[module].parent)],
            name => self.lookup(module, name, depth),
        };
        if found.is_empty() && !rest.is_empty() {
            found = match self.crates.get(first) {
                Some(&root) => vec![Name::Module(root)],
                None if self.locked.contains_key(first) || first.starts_with("trimtab_") => {
                    return vec![Name::Foreign(path.join("::"))];
                }
                None => Vec::new(),
            };
        }
        for segment in rest {
            let next = found.into_iter().flat_map(|name| match name {
                Name::Module(module) if segment == "super" => vec![Name::Module(self.modules[module].parent)],
                Name::Module(module) => self.lookup(module, segment, depth),
                Name::Foreign(path) => vec![Name::Foreign(format!("{path}::{segment}"))],
                // A variant or an associated item.
                name => vec![name],
            });
            found = next.collect();
        }
        found
    }

    fn lookup(&self, module: usize, name: &str, depth: usize) -> Vec<Name> {
        if depth > MAX_IMPORTS {
            return Vec::new();
        }
        let Module { names, perhaps, globs, .. } = &self.modules[module];
        let imported = |path: &Vec<String>| {
            let found = self.resolve(module, path, depth + 1);
            if found.is_empty() { vec![Name::Foreign(path.join("::"))] } else { found }
        };
        let named = names.get(name).into_iter().flatten().flat_map(|name| match name {
            Name::Import(path) => imported(path),
            name => vec![name.clone()],
        });
        let mut found: Vec<Name> = named.collect();
        if found.is_empty() {
            let all = globs.iter().flat_map(|glob| self.resolve(module, glob, depth + 1));
            let inside = all.map(|all| match all {
                Name::Module(all) => self.lookup(all, name, depth + 1),
                _ => Vec::new(),
            });
            found = inside.flatten().collect();
        }
        if found.is_empty() { perhaps.get(name).cloned().unwrap_or_default() } else { found }
    }

    /// What a macro's path stands for: one of its own module, or one that was declared before.
    fn called(&self, module: usize, path: &[String]) -> Vec<Name> {
        let found = self.resolve(module, path, 0);
        let root = self.modules[module].root;
        if found.is_empty() { path.first().map_or(vec![], |name| self.lookup(root, name, 0)) } else { found }
    }

    /// The traits of ours in scope in a module.
    fn traits(&self, module: usize) -> Vec<usize> {
        let Module { names, globs, .. } = &self.modules[module];
        let all = globs.iter().flat_map(|glob| self.resolve(module, glob, 0));
        let all =
            all.filter_map(
                |all| if let Name::Module(all) = all { Some(&self.modules[all].names) } else { None },
            );
        let words = all.chain([names]).flat_map(|names| names.keys());
        let found = words.flat_map(|word| self.lookup(module, word, 0));
        let is_trait = |item: &usize| matches!(self.declared[*item].item.kind, Kind::Trait(_));
        found.filter_map(Name::item).filter(is_trait).collect()
    }

    /// What an item uses.
    fn uses(&self, number: usize) -> &Uses {
        self.declared[number].uses.get_or_init(|| self.find_uses(number))
    }

    fn find_uses(&self, number: usize) -> Uses {
        let Declared { item, module, .. } = &self.declared[number];
        let mut uses = Uses::default();
        self.scan(*module, *module, &item.tokens, &mut uses);
        // A macro may be handed a module to look into.
        if !uses.macros.is_empty() || item.kind == Kind::Call {
            let inside = |item: &usize| uses.modules.contains(&self.declared[*item].module);
            uses.items.extend((0..self.declared.len()).filter(inside).collect::<Vec<_>>());
        }
        // Methods of traits in scope have no path.
        for scope in uses.macros.iter().map(|&at| self.declared[at].module).chain([*module]) {
            let called = |&&of: &&usize| !self.declared[of].functions.is_disjoint(&uses.words);
            uses.items.extend(self.modules[scope].traits.iter().filter(called));
        }
        uses
    }

    /// Resolves the names among tokens in a module; `home` is where they were written.
    fn scan(&self, module: usize, home: usize, tokens: &[String], uses: &mut Uses) {
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            at += 1;
            if !is_name(token(start)) {
                // Names within strings that are formatted.
                for word in token(start).split('{').skip(1).filter(|_| token(start).ends_with('"')) {
                    let name: String =
                        word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    self.note(self.lookup(module, &name, 0), uses);
                }
                continue;
            }
            if token(start) == "pub" && token(at) == "(" {
                at = behind_group(tokens, at);
                continue;
            }
            if token(start) == "use" {
                let end = (start..tokens.len()).find(|&at| token(at) == ";").unwrap_or(tokens.len());
                for (_, path) in imports(&tokens[at..end]) {
                    self.note(self.resolve(module, &path, 0), uses);
                }
                at = end;
                continue;
            }
            let (path, behind) = path(tokens, start);
            at = behind;
            uses.words.extend(path.last().cloned());
            if token(at) == "!" && matches!(token(start), "include_str" | "include_bytes") {
                let dir = self.modules[home].file.parent().unwrap_or(Path::new(""));
                uses.included.insert(dir.join(token(at + 2).trim_matches('"')));
            }
            // Fields and methods are not names in scope; ends of ranges are.
            let is_member = start > 0 && token(start - 1) == "." && (start < 2 || token(start - 2) != ".");
            if is_member || path.len() == 1 && matches!(token(start), "self" | "super" | "crate") {
                continue;
            }
            let called = token(at) == "!";
            let found = if called { self.called(module, &path) } else { self.resolve(module, &path, 0) };
            for name in &found {
                let Name::Item(number) = *name else { continue };
                let Declared { item, module: written, .. } = &self.declared[number];
                // What a macro writes is compiled where it is called.
                if matches!(item.kind, Kind::Macro(_)) && uses.macros.insert(number) {
                    self.scan(module, *written, &item.tokens, uses);
                }
            }
            self.note(found, uses);
        }
    }

    fn note(&self, found: Vec<Name>, uses: &mut Uses) {
        for name in found {
            match name {
                Name::Item(item) => _ = uses.items.insert(item),
                Name::Module(module) => _ = uses.modules.insert(module),
                Name::Foreign(path) => _ = uses.foreign.insert(path),
                Name::Import(_) => (),
            }
        }
    }

    pub(crate) fn kernels(&self) -> Vec<Kernel> {
        let mut roots = BTreeMap::<&str, Vec<usize>>::new();
        for (number, Declared { item, module, .. }) in self.declared.iter().enumerate() {
            let says = |tokens: &[String]| {
                tokens
                    .windows(2)
                    .any(|two| matches!(two[0].as_str(), "identity" | "version") && two[1] == "!")
            };
            let is_root = match item.kind {
                Kind::Impl(_) => says(&item.tokens),
                // A macro that writes the `impl`.
                Kind::Call => {
                    self.uses(number).macros.iter().any(|&called| says(&self.declared[called].item.tokens))
                }
                _ => false,
            };
            if is_root {
                roots.entry(&self.modules[*module].path).or_default().push(number);
            }
        }
        roots.into_iter().map(|(module, roots)| self.kernel(module, &roots)).collect()
    }

    /// The kernel whose `impl` these are, by the code that is reached from them.
    fn kernel(&self, module: &str, roots: &[usize]) -> Kernel {
        let (mut reached, mut modules) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = roots.to_vec();
        while !waiting.is_empty() {
            while let Some(item) = waiting.pop() {
                if !reached.insert(item) {
                    continue;
                }
                waiting.extend(&self.uses(item).items);
                let here = self.declared[item].module;
                if modules.insert(here) {
                    let globs = self.modules[here].globs.iter().flat_map(|glob| self.resolve(here, glob, 0));
                    waiting
                        .extend(globs.filter_map(Name::item).chain(self.modules[here].calls.iter().copied()));
                }
            }
            // An `impl` is used where everything in its head is.
            let impls = self.declared.iter().enumerate().filter(|(number, declared)| {
                let is_used = match declared.head.as_slice() {
                    [] => modules.contains(&declared.module),
                    head => head.iter().all(|item| reached.contains(item)),
                };
                matches!(declared.item.kind, Kind::Impl(_)) && !reached.contains(number) && is_used
            });
            waiting.extend(impls.map(|(number, _)| number));
        }
        let mut code = BTreeSet::new();
        let mut files = BTreeSet::new();
        for &item in &reached {
            let Declared { item: declared, module, .. } = &self.declared[item];
            let Module { path, file, .. } = &self.modules[*module];
            code.insert(format!("{path} {}", declared.tokens.join(" ")));
            files.insert(file.clone());
            code.extend(self.uses(item).foreign.iter().map(|path| self.versioned(path)));
            for file in &self.uses(item).included {
                // One that is not there does not compile either.
                let text = fs::read_to_string(file).unwrap_or_default();
                let name = file.file_name().unwrap_or_default().display();
                code.insert(format!("{name} {}", tokens(&text).join(" ")));
                files.insert(file.clone());
            }
        }
        // A kernel around a library shows its version.
        let own = reached.iter().filter(|&&item| self.modules[self.declared[item].module].path == module);
        let library = own
            .flat_map(|&item| &self.uses(item).foreign)
            .find_map(|path| self.locked.get(path.split("::").next()?));
        let mut version = format!("{:016x}", fnv(code.iter().flat_map(|code| code.bytes().chain([0]))));
        if let Some(library) = library {
            version = format!("{library}+{version}");
        }
        Kernel { module: module.to_string(), version, files }
    }

    /// A path into a foreign crate, with the crate's version; one of ours that is not here has the version of them all.
    fn versioned(&self, path: &str) -> String {
        let first = path.split("::").next().unwrap_or_default();
        let ours = first.starts_with("trimtab_").then_some(OUR_VERSION);
        let version = ours.or(self.locked.get(first).map(String::as_str)).unwrap_or_default();
        format!("{path} {version}")
    }
}

/// The file of a module declared in another file, and its tokens.
fn child_file(file: &Path, name: &str) -> io::Result<(PathBuf, Vec<String>)> {
    let dir = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let dir = if matches!(stem, "lib" | "mod") { dir.to_path_buf() } else { dir.join(stem) };
    let flat = dir.join(format!("{name}.rs"));
    let found = if flat.exists() { flat } else { dir.join(name).join("mod.rs") };
    let text = fs::read_to_string(&found)?;
    Ok((found, tokens(&text)))
}

/// The versions a lock file names, by the crates' names in paths; several versions of a crate together.
fn locked_versions(text: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::<String, String>::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(found) = line.strip_prefix("name = ") {
            name = found.trim_matches('"').replace('-', "_");
        } else if let Some(version) = line.strip_prefix("version = ").filter(|_| !name.is_empty()) {
            let known = versions.entry(name.clone()).or_default();
            known.push_str(if known.is_empty() { "" } else { "," });
            known.push_str(version.trim_matches('"'));
        }
    }
    versions
}

/// FNV-1a, 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
