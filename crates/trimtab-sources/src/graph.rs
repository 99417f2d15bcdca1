//! Which item uses which: names are resolved as the compiler does, without types.

use crate::Kernel;
use crate::items::{Kind, imports, is_name, is_test, kind, path, read, tokens};
use crate::locked::{OUR_VERSION, locked_versions};
use proc_macro2::TokenStream;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Imports of imports that are followed; more are a circle.
const MAX_IMPORTS: usize = 16;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Item(usize),
    Module(usize),
    /// Something imported, by its path.
    Import(Vec<String>),
    /// Something of a crate whose sources are not here.
    Foreign(String),
}

impl Name {
    fn item(self) -> Option<usize> {
        if let Name::Item(item) = self { Some(item) } else { None }
    }

    fn module(self) -> Option<usize> {
        if let Name::Module(module) = self { Some(module) } else { None }
    }
}

#[derive(Default)]
struct Module {
    path: String,
    file: PathBuf,
    parent: usize,
    root: usize,
    /// What its names stand for; what is imported as a whole, under `*`.
    names: BTreeMap<String, Vec<Name>>,
    /// Macros called in it, outside of functions.
    calls: Vec<usize>,
    /// Traits of ours in scope, once that was asked.
    traits: OnceCell<Vec<usize>>,
}

struct Item {
    kind: Kind,
    code: Vec<String>,
    module: usize,
    /// What is ours in the head of an `impl`.
    head: Vec<usize>,
    /// Functions of a trait; of a call, the names that it or the macro says: perhaps declared there.
    declares: BTreeSet<String>,
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

#[derive(Default)]
pub(crate) struct Graph {
    modules: Vec<Module>,
    items: Vec<Item>,
    /// Our crates, by their names in paths.
    crates: BTreeMap<String, usize>,
    /// Macros by their names, wherever they are.
    macros: BTreeMap<String, Vec<usize>>,
    locked: BTreeMap<String, String>,
    /// What was read: files and folders.
    pub(crate) read: Vec<PathBuf>,
}

impl Graph {
    pub(crate) fn load(manifest: &Path, target: &Path) -> io::Result<Graph> {
        let text = fs::read_to_string(manifest.join("Cargo.toml"))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or_default();
        let (locked, read) = locked_versions(name, [target, manifest]);
        let mut graph = Graph { locked, read, ..Graph::default() };
        graph.load_crate(&name.trim_matches('"').replace('-', "_"), manifest)?;
        for at in 0..graph.items.len() {
            let Item { kind, code, module, .. } = &graph.items[at];
            if let Kind::Impl(paths) = kind {
                let head = paths.iter().flat_map(|path| graph.resolve(*module, path, 0));
                graph.items[at].head = head.filter_map(Name::item).collect();
            } else if *kind == Kind::Call {
                let called = path(code, 0).0.pop().and_then(|name| graph.macros.get(&name));
                let written = called.into_iter().flatten().map(|&called| &graph.items[called].code);
                let paths = written.chain([code]).flat_map(|code| (0..code.len()).map(|at| path(code, at).0));
                let words = paths.filter(|path| path.len() == 1).flatten().collect();
                graph.items[at].declares = words;
            }
        }
        Ok(graph)
    }

    /// Loads a crate and those of ours beside it that it names.
    fn load_crate(&mut self, name: &str, dir: &Path) -> io::Result<()> {
        let (root, file) = (self.modules.len(), dir.join("src/lib.rs"));
        self.read.push(dir.join("src"));
        self.crates.insert(name.to_string(), root);
        let mut named = BTreeSet::new();
        let module = Module { path: name.to_string(), parent: root, root, ..Module::default() };
        self.load_module(module, read(&file)?, file, &mut named)?;
        for other in named {
            let dashed = other.replace('_', "-");
            // Where Cargo unpacks crates, folders carry versions; ours have one for all.
            let places = [dashed.clone(), format!("{dashed}-{OUR_VERSION}")];
            let mut places = places.iter().map(|place| dir.join("..").join(place));
            let found = places.find(|place| place.join("src/lib.rs").exists());
            if let Some(place) = found.filter(|_| !self.crates.contains_key(&other)) {
                self.load_crate(&other, &place)?;
            }
        }
        Ok(())
    }

    fn load_module(
        &mut self,
        module: Module,
        items: Vec<syn::Item>,
        file: PathBuf,
        named: &mut BTreeSet<String>,
    ) -> io::Result<()> {
        let (at, root, path) = (self.modules.len(), module.root, module.path.clone());
        self.modules.push(Module { file: file.clone(), ..module });
        for item in items.into_iter().filter(|item| !is_test(item)) {
            let code = tokens(&item);
            named.extend(code.iter().filter(|word| word.starts_with("trimtab_")).cloned());
            let number = self.items.len();
            match item {
                syn::Item::Mod(inner) => {
                    let (name, child) = (inner.ident.to_string(), self.modules.len());
                    self.name(at, &name, Name::Module(child));
                    let (file, items) = match inner.content {
                        Some((_, items)) => (file.clone(), items),
                        None => child_file(&file, &name)?,
                    };
                    let path = format!("{path}::{name}");
                    let module = Module { path, parent: at, root, ..Module::default() };
                    self.load_module(module, items, file, named)?;
                }
                syn::Item::Use(item) => {
                    for (name, path) in imports(&item.tree) {
                        self.name(at, &name, Name::Import(path));
                    }
                }
                item => {
                    let (name, kind) = kind(&item);
                    if let Some(name) = &name {
                        self.name(at, name, Name::Item(number));
                    }
                    match (&kind, name) {
                        (Kind::Macro, Some(name)) => self.macros.entry(name).or_default().push(number),
                        (Kind::Call, _) => self.modules[at].calls.push(number),
                        _ => (),
                    }
                    let functions = code.windows(2).filter(|two| kind == Kind::Trait && two[0] == "fn");
                    let declares = functions.map(|two| two[1].clone()).collect();
                    let (head, uses) = (Vec::new(), OnceCell::new());
                    self.items.push(Item { kind, code, module: at, head, declares, uses });
                }
            }
        }
        Ok(())
    }

    fn name(&mut self, module: usize, name: &str, stands_for: Name) {
        self.modules[module].names.entry(name.to_string()).or_default().push(stands_for);
    }

    /// What a path stands for in a module: several things where a name has several meanings.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Vec<Name> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let up = |module: usize| vec![Name::Module(self.modules[module].parent)];
        let mut found = match first.as_str() {
            "crate" => vec![Name::Module(self.modules[module].root)],
            "self" => vec![Name::Module(module)],
            "super" => up(module),
            name => self.lookup(module, name, depth),
        };
        if found.is_empty() && !rest.is_empty() {
            let is_foreign = self.locked.contains_key(first) || first.starts_with("trimtab_");
            let foreign = is_foreign.then(|| Name::Foreign(first.clone()));
            let ours = self.crates.get(first).map(|&root| Name::Module(root));
            found = ours.or(foreign).into_iter().collect();
        }
        for segment in rest {
            let next = found.into_iter().flat_map(|name| match name {
                Name::Module(module) if segment == "super" => up(module),
                Name::Module(module) => self.lookup(module, segment, depth),
                // A variant, an associated item, something of a foreign crate.
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
        let Module { names, calls, .. } = &self.modules[module];
        let stand_for = |name: &str| names.get(name).into_iter().flatten();
        let resolved = |name: &Name| match name {
            Name::Import(path) => self.resolve(module, path, depth + 1),
            name => vec![name.clone()],
        };
        let mut found: Vec<Name> = stand_for(name).flat_map(resolved).collect();
        if found.is_empty() {
            let inside = stand_for("*").flat_map(resolved).filter_map(Name::module);
            found = inside.flat_map(|all| self.lookup(all, name, depth + 1)).collect();
        }
        if found.is_empty() {
            let says = |call: &&usize| self.items[**call].declares.contains(name);
            found = calls.iter().filter(says).map(|&call| Name::Item(call)).collect();
        }
        found
    }

    /// The traits of ours in scope in a module.
    fn traits(&self, module: usize) -> &[usize] {
        self.modules[module].traits.get_or_init(|| {
            let scopes = self.lookup(module, "*", 0).into_iter().filter_map(Name::module).chain([module]);
            let words = scopes.flat_map(|scope| self.modules[scope].names.keys());
            let found = words.flat_map(|word| self.lookup(module, word, 0)).filter_map(Name::item);
            found.filter(|&item| self.items[item].kind == Kind::Trait).collect()
        })
    }

    /// What an item uses.
    fn uses(&self, number: usize) -> &Uses {
        let Item { kind, code, module, uses, .. } = &self.items[number];
        uses.get_or_init(|| {
            let mut uses = Uses::default();
            self.scan(*module, *module, code, &mut uses);
            // A macro may be handed a module to look into.
            if !uses.macros.is_empty() || *kind == Kind::Call {
                let inside = |item: &usize| uses.modules.contains(&self.items[*item].module);
                uses.items.extend((0..self.items.len()).filter(inside));
            }
            // Methods of traits in scope have no path.
            for scope in uses.macros.iter().map(|&at| self.items[at].module).chain([*module]) {
                let called = |&&of: &&usize| !self.items[of].declares.is_disjoint(&uses.words);
                uses.items.extend(self.traits(scope).iter().filter(called));
            }
            uses
        })
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
                for word in token(start).split('{').skip(1) {
                    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
                    self.note(self.lookup(module, &word[..end], 0), uses);
                }
                continue;
            }
            if token(start) == "pub" && token(at) == "(" {
                at += tokens[at..].iter().take_while(|token| *token != ")").count();
                continue;
            }
            if token(start) == "use" {
                let end = (start..tokens.len()).find(|&at| token(at) == ";").unwrap_or(start);
                // What is no import (a macro's `$name`) is read as other code is.
                if let Ok(item) = syn::parse_str::<syn::ItemUse>(&tokens[start..=end].join(" ")) {
                    let paths = imports(&item.tree).into_iter().map(|(_, path)| path);
                    paths.for_each(|path| self.note(self.resolve(module, &path, 0), uses));
                    at = end;
                }
                continue;
            }
            let (path, behind) = path(tokens, start);
            at = behind;
            uses.words.extend(path.last().cloned());
            let is_called = token(at) == "!";
            if is_called && matches!(token(start), "include_str" | "include_bytes") {
                let dir = self.modules[home].file.parent().unwrap_or(Path::new(""));
                uses.included.insert(dir.join(token(at + 2).trim_matches('"')));
            }
            // Fields and methods are not names in scope; ends of ranges are.
            let is_member = start > 0 && token(start - 1) == "." && (start < 2 || token(start - 2) != ".");
            if is_member || path.len() == 1 && matches!(token(start), "self" | "super" | "crate") {
                continue;
            }
            let mut found = self.resolve(module, &path, 0);
            let called = path.last().filter(|_| is_called).and_then(|name| self.macros.get(name));
            found.extend(called.into_iter().flatten().map(|&called| Name::Item(called)));
            for name in &found {
                let Name::Item(number) = *name else { continue };
                let Item { kind, code, module: written, .. } = &self.items[number];
                // What a macro writes is compiled where it is called.
                if *kind == Kind::Macro && uses.macros.insert(number) {
                    self.scan(module, *written, code, uses);
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
                Name::Foreign(name) => _ = uses.foreign.insert(name),
                Name::Import(_) => (),
            }
        }
    }

    pub(crate) fn kernels(&self) -> Vec<Kernel> {
        let says = |item: usize| {
            let code = &self.items[item].code;
            code.windows(2).any(|two| matches!(two[0].as_str(), "identity" | "version") && two[1] == "!")
        };
        let mut roots = BTreeMap::<&str, Vec<usize>>::new();
        for (number, item) in self.items.iter().enumerate() {
            let is_root = match item.kind {
                Kind::Impl(_) => says(number),
                // A macro that writes the `impl`.
                Kind::Call => self.uses(number).macros.iter().any(|&called| says(called)),
                _ => false,
            };
            if is_root {
                roots.entry(&self.modules[item.module].path).or_default().push(number);
            }
        }
        roots.into_iter().map(|(module, roots)| self.kernel(module, roots)).collect()
    }

    /// The kernel whose `impl` these are, by the code that is reached from them.
    fn kernel(&self, module: &str, roots: Vec<usize>) -> Kernel {
        let (mut reached, mut modules) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = roots;
        while !waiting.is_empty() {
            while let Some(item) = waiting.pop() {
                if !reached.insert(item) {
                    continue;
                }
                waiting.extend(&self.uses(item).items);
                let here = self.items[item].module;
                if modules.insert(here) {
                    // An enumeration whose variants are imported, and what macros declare.
                    waiting.extend(self.lookup(here, "*", 0).into_iter().filter_map(Name::item));
                    waiting.extend(&self.modules[here].calls);
                }
            }
            // An `impl` is used where everything in its head is.
            let impls = self.items.iter().enumerate().filter(|(number, item)| {
                let is_used = match item.head.as_slice() {
                    [] => modules.contains(&item.module),
                    head => head.iter().all(|item| reached.contains(item)),
                };
                matches!(item.kind, Kind::Impl(_)) && !reached.contains(number) && is_used
            });
            waiting.extend(impls.map(|(number, _)| number));
        }
        let (mut code, mut files) = (BTreeSet::new(), BTreeSet::new());
        // A kernel around a library shows its version.
        let mut library = None;
        for &number in &reached {
            let (item, uses) = (&self.items[number], self.uses(number));
            let Module { path, file, .. } = &self.modules[item.module];
            code.insert(format!("{path} {}", item.code.join(" ")));
            files.insert(file.clone());
            for name in &uses.foreign {
                let locked = self.locked.get(name).filter(|_| !name.starts_with("trimtab_"));
                code.insert(format!("{name} {}", locked.map_or(OUR_VERSION, String::as_str)));
                library = library.or(locked.filter(|_| path == module));
            }
            for file in &uses.included {
                // One that is not there does not compile either.
                let text = fs::read_to_string(file).unwrap_or_default().replace("\r\n", "\n");
                let text = text
                    .parse::<TokenStream>()
                    .map_or_else(|_| plain(&text), |parsed| tokens(&parsed).join(" "));
                code.insert(format!("{} {text}", file.file_name().unwrap_or_default().display()));
                files.insert(file.clone());
            }
        }
        let mut version = format!("{:016x}", fnv(code.iter().flat_map(|code| code.bytes().chain([0]))));
        if let Some(library) = library {
            version = format!("{library}+{version}");
        }
        Kernel { module: module.to_string(), version, files }
    }
}

/// The file of a module declared in another file, and its items.
fn child_file(file: &Path, name: &str) -> io::Result<(PathBuf, Vec<syn::Item>)> {
    let is_folder = file.ends_with("lib.rs") || file.ends_with("mod.rs");
    let dir = if is_folder { file.parent().unwrap_or(file).to_path_buf() } else { file.with_extension("") };
    let flat = dir.join(format!("{name}.rs"));
    let found = if flat.exists() { flat } else { dir.join(name).join("mod.rs") };
    let items = read(&found)?;
    Ok((found, items))
}

/// FNV-1a, 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A part of a shader whose brackets another part closes: its words, without what follows `//`.
fn plain(text: &str) -> String {
    let words = text.lines().filter_map(|line| line.split("//").next()).flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}
