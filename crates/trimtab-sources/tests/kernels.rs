//! Which edits change which kernel's version, over a copy of the kernels as they are.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use trimtab_sources::{Kernel, kernels};

const CRATES: [&str; 5] = ["trimtab-core", "trimtab-operands", "trimtab-tune", "trimtab-cpu", "trimtab-wgpu"];

/// A copy of the sources that can be edited, and the versions as they were.
struct Copy(TempDir, RefCell<BTreeMap<String, BTreeMap<String, String>>>);

impl Copy {
    fn new() -> Copy {
        let copy = Copy(TempDir::new().unwrap(), RefCell::default());
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        fs::copy(from.join("Cargo.lock"), copy.0.path().join("Cargo.lock")).unwrap();
        for name in CRATES {
            let (from, to) = (from.join("crates").join(name), copy.0.path().join(name));
            copy_all(&from.join("src"), &to.join("src"));
            fs::copy(from.join("Cargo.toml"), to.join("Cargo.toml")).unwrap();
        }
        copy
    }

    fn kernels(&self, device: &str) -> Vec<Kernel> {
        kernels(&self.0.path().join(format!("trimtab-{device}")), self.0.path()).unwrap()
    }

    /// Versions by the path of the kernel's module within `kernels`.
    fn versions(&self, device: &str) -> BTreeMap<String, String> {
        let start = format!("trimtab_{device}::kernels::");
        let each = self.kernels(device).into_iter();
        each.map(|kernel| (kernel.module.replace(&start, ""), kernel.version)).collect()
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.0.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    /// The kernels whose version such an edit changes; it is undone.
    fn changed_by(&self, device: &str, file: &str, from: &str, to: &str) -> BTreeSet<String> {
        let mut kept = self.1.borrow_mut();
        let before = kept.entry(device.to_string()).or_insert_with(|| self.versions(device));
        let path = self.0.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        self.edit(file, from, to);
        let changed = differences(before, &self.versions(device));
        fs::write(path, text).unwrap();
        changed
    }
}

fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    let differs = |(kernel, version): &(&String, &String)| after.get(*kernel) != Some(version);
    before.iter().filter(differs).map(|(kernel, _)| kernel.clone()).collect()
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() { copy_all(&path, &to) } else { _ = fs::copy(&path, &to).unwrap() }
    }
}

/// Checks each edit of (file within `src`, text, its replacement), found by reading the kernel, not by asking the scanner.
fn each_changes(copy: &Copy, device: &str, kernel: &str, edits: &[(&str, &str, &str)]) {
    for (file, from, to) in edits {
        let file = if file.starts_with("trimtab-") {
            file.to_string()
        } else {
            format!("trimtab-{device}/src/{file}")
        };
        let changed = copy.changed_by(device, &file, from, to);
        assert!(changed.contains(kernel), "{file}: {from} is run by {kernel}, changed: {changed:?}");
    }
}

#[test]
fn an_edit_of_code_the_blocked_product_runs_changes_its_version() {
    let copy = Copy::new();
    let kernels = "kernels/matmul";
    let edits = [
        ("blocked.rs", "1024 / size", "2048 / size"),
        ("tiles.rs", "lhs_row = if UNIT { 1 }", "lhs_row = if UNIT { 2 }"),
        ("turn.rs", "lines == 0 || depth == 0", "lines == 0"),
        ("float.rs", "&[512, 256, 128]", "&[512, 256]"),
        ("product.rs", "MIN_FLOPS_PER_THREAD: u64 = 250_000", "MIN_FLOPS_PER_THREAD: u64 = 250_001"),
        ("scratch.rs", "32 << 20", "32 << 21"),
        ("../../sync.rs", "SPINS_BEFORE_SLEEP: u32 = 4_000", "SPINS_BEFORE_SLEEP: u32 = 4_001"),
        ("../../pool/board.rs", "POLLS_BEFORE_YIELD: u32 = 1_024", "POLLS_BEFORE_YIELD: u32 = 1_025"),
        ("../../args.rs", "found == lens", "found != lens"),
        ("../../disjoint.rs", "saturating_add(chunk)", "saturating_add(chunk + 1)"),
    ];
    let edits: Vec<(String, &str, &str)> =
        edits.map(|(file, a, b)| (format!("{kernels}/{file}"), a, b)).into();
    let mut edits: Vec<(&str, &str, &str)> =
        edits.iter().map(|(file, a, b)| (file.as_str(), *a, *b)).collect();
    edits.push(("trimtab-core/src/problem/matmul.rs", "2u64.saturating_mul", "3u64.saturating_mul"));
    each_changes(&copy, "cpu", "matmul::blocked", &edits);
}

#[test]
fn an_edit_of_code_the_matrix_vector_product_runs_changes_its_version() {
    let copy = Copy::new();
    let edits = [
        ("kernels/matmul/matvec.rs", "LONG_CHUNK: u32 = 16_384", "LONG_CHUNK: u32 = 16_385"),
        (
            "kernels/matmul/lines.rs",
            "if add { *out.add(tail) } else { 0.0 }",
            "if add { *out.add(tail) } else { 1.0 }",
        ),
        (
            "kernels/matmul/lines.rs",
            "SCALED_ROWS: [usize; 4] = [1, 2, 4, 8]",
            "SCALED_ROWS: [usize; 4] = [1, 2, 4, 7]",
        ),
    ];
    each_changes(&copy, "cpu", "matmul::matvec", &edits);
    let library = [("kernels/matmul/gemm.rs", "T::ONE,\n            false", "T::ZERO,\n            false")];
    each_changes(&copy, "cpu", "matmul::gemm", &library);
    each_changes(&copy, "cpu", "fused::gemm", &library);
}

#[test]
fn an_edit_of_code_the_fused_processor_kernels_run_changes_their_versions() {
    let copy = Copy::new();
    let of_all = [
        ("kernels/fused/machine.rs", "const VECTORS: usize = 8", "const VECTORS: usize = 4"),
        ("kernels/fused/acts.rs", "if LEFT { (read, held) }", "if LEFT { (held, read) }"),
        ("kernels/fused/program.rs", "ASIDE: usize = PRODUCT + 1", "ASIDE: usize = PRODUCT + 2"),
        ("kernels/elementwise/math.rs", "BIAS: f64 = 127.0", "BIAS: f64 = 128.0"),
        ("kernels/elementwise/ops.rs", "either(0.0 > a", "either(0.0 >= a"),
        ("simd.rs", "MAX_LANES: usize = 16", "MAX_LANES: usize = 32"),
        ("simd/x86.rs", "32 registers", "31 registers"),
    ];
    let ends = [
        ("kernels/fused/ends.rs", "const TILE: usize = 2048", "const TILE: usize = 1024"),
        (
            "kernels/reduce/fold.rs",
            "const TOO_LARGE: i64 = (1 << 31) + 1",
            "const TOO_LARGE: i64 = (1 << 31) + 2",
        ),
    ];
    let product = [("kernels/matmul/blocked.rs", "width.min(cols - strip)", "width.min(cols + strip)")];
    each_changes(&copy, "cpu", "fused::tiles", &[&of_all[..], &ends].concat());
    each_changes(&copy, "cpu", "fused::product", &[&of_all[..], &product].concat());
}

#[test]
fn an_edit_of_code_transposes_and_reductions_of_the_processor_run_changes_their_versions() {
    let copy = Copy::new();
    let tiles = ("kernels/transpose/tiles.rs", "PARTS_PER_THREAD: usize = 4", "PARTS_PER_THREAD: usize = 5");
    let axes = ("kernels/transpose/mod.rs", "axes.to[axis] = to;", "axes.to[axis] = to + 1;");
    let sides = ("kernels/transpose/tiled.rs", "(wide, high.unwrap_or(1))", "(wide, high.unwrap_or(2))");
    each_changes(&copy, "cpu", "transpose::tiled", &[tiles, axes, sides]);
    each_changes(&copy, "cpu", "transpose::registers", &[tiles, axes, sides]);
    each_changes(
        &copy,
        "cpu",
        "transpose::reference",
        &[
            axes,
            ("kernels/units.rs", "align_of::<T>() < align_of::<U>()", "align_of::<T>() != align_of::<U>()"),
        ],
    );
    let fold = ("kernels/reduce/fold.rs", "sum.is_finite() { sum + lost }", "sum.is_finite() { sum - lost }");
    for kernel in ["reduce::vector", "reduce::parallel", "reduce::columns", "reduce::reference"] {
        each_changes(&copy, "cpu", kernel, &[fold]);
    }
}

#[test]
fn an_edit_of_code_or_shaders_gpu_kernels_run_changes_their_versions() {
    let copy = Copy::new();
    let program = (
        "program.rs",
        "Binding { place, part: None, writes: true }",
        "Binding { place, part: None, writes: false }",
    );
    let head = ("kernels/matmul/head.wgsl", "params", "parameters");
    let layout = ("kernels/matmul/layout.rs", "LONGEST_INNER: u64 = 32_768", "LONGEST_INNER: u64 = 32_767");
    let registers =
        ("kernels/matmul/registers.rs", "[\"x\", \"y\", \"z\", \"w\"]", "[\"x\", \"y\", \"w\", \"z\"]");
    let text = ("kernels/matmul/blocked.wgsl", "$SUMS", "$LEFT");
    let main = ("kernels/main.wgsl", "workgroup_id", "workgroup_number");
    let tile = ("kernels/matmul/tile.wgsl", "rows", "lines");
    each_changes(&copy, "wgpu", "matmul::blocked", &[program, head, layout, registers, text, main, tile]);
    let stage = ("kernels/reduce/stage.rs", "LONGEST_WALK: u64 = 1 << 15", "LONGEST_WALK: u64 = 1 << 14");
    let fold = ("kernels/reduce/fold.rs", "s.sum + $F(value)", "s.sum - $F(value)");
    let walk = ("kernels/reduce/walk.wgsl", "stride", "step");
    let tree = ("kernels/reduce/tree.wgsl", "workgroupBarrier", "storageBarrier");
    each_changes(&copy, "wgpu", "reduce::tree", &[stage, fold, walk, tree, program, main]);
    each_changes(&copy, "wgpu", "reduce::twopass", &[stage, fold, walk, tree, program]);
    let recipe = ("kernels/elementwise/shader.rs", "alias T = {element}", "alias U = {element}");
    let ops = ("kernels/elementwise/arithmetic.wgsl", "fn op_add", "fn op_plus");
    let step = ("kernels/fused/reduce.rs", "step.params.resize(15, 0)", "step.params.resize(14, 0)");
    each_changes(&copy, "wgpu", "fused::reduce", &[recipe, ops, step, program]);
    let function = ("kernels/fused/recipe.rs", "fn recipe({single})", "fn other({single})");
    each_changes(&copy, "wgpu", "fused::product", &[function, ops, program]);
    let planes = ("kernels/transpose/mod.rs", "axis.to / side", "axis.to * side");
    let block = ("kernels/transpose/planes.wgsl", "from_base", "from_start");
    each_changes(&copy, "wgpu", "transpose::tiled", &[planes, block, program, main]);
    each_changes(&copy, "wgpu", "transpose::registers", &[planes, block, program, main]);
    let walk = ("kernels/elementwise/walk.wgsl", "at < count", "at <= count");
    for kernel in ["elementwise::vector", "elementwise::broadcast", "fused::vector", "transpose::naive"] {
        each_changes(&copy, "wgpu", kernel, &[walk, program, main]);
    }
}

#[test]
fn adding_a_kernel_changes_no_other_version() {
    for (device, operation, sibling) in [
        ("cpu", "transpose", "rows"),
        ("cpu", "matmul", "small"),
        ("wgpu", "reduce", "serial"),
        ("wgpu", "transpose", "naive"),
    ] {
        let copy = Copy::new();
        let before = copy.versions(device);
        let dir = format!("trimtab-{device}/src/kernels/{operation}");
        let (from, to) = (format!("{dir}/{sibling}.rs"), format!("{dir}/added.rs"));
        fs::copy(copy.0.path().join(from), copy.0.path().join(to)).unwrap();
        let text = fs::read_to_string(copy.0.path().join(&dir).join("mod.rs")).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("erase({sibling}::"))).unwrap();
        let start = line.find("erase(").unwrap();
        let registered = &line[start..=start + line[start..].find(')').unwrap()];
        let added = registered.replace(sibling, "added");
        copy.edit(&format!("{dir}/mod.rs"), registered, &format!("{registered}, {added}"));
        let declared = text.lines().find(|line| line.ends_with(&format!("mod {sibling};"))).unwrap();
        copy.edit(&format!("{dir}/mod.rs"), declared, &format!("{declared}\nmod added;"));
        let after = copy.versions(device);
        assert_eq!(differences(&before, &after), BTreeSet::new(), "{device} {operation}");
        assert_eq!(after.len(), before.len() + 1);
    }
}

#[test]
fn editing_a_kernel_changes_no_sibling_that_does_not_run_it() {
    let copy = Copy::new();
    let only = |device: &str, file: &str, from: &str, to: &str, expected: &[&str]| {
        let file = format!("trimtab-{device}/src/kernels/{file}");
        let expected = expected.iter().map(|kernel| kernel.to_string()).collect();
        assert_eq!(copy.changed_by(device, &file, from, to), expected, "{file}");
    };
    let tiles = "TILES: [u32; 5] = [16, 8, 32, 64, 128]";
    only("cpu", "transpose/tiled.rs", tiles, "TILES: [u32; 5] = [8, 16, 32, 64, 128]", &["transpose::tiled"]);
    only(
        "cpu",
        "matmul/blocked.rs",
        "1024 / size",
        "2048 / size",
        &["fused::product", "matmul::blocked", "matmul::converting"],
    );
    only("cpu", "matmul/cblas.rs", "ROW_MAJOR: i32 = 101", "ROW_MAJOR: i32 = 102", &["matmul::cblas"]);
    only(
        "cpu",
        "matmul/matrixmultiply.rs",
        "step(out_row)",
        "step(out_row + 1)",
        &["matmul::matrixmultiply"],
    );
    only(
        "cpu",
        "elementwise/vector.rs",
        "SHARE_STEP: usize = 64",
        "SHARE_STEP: usize = 32",
        &["elementwise::vector"],
    );
    only(
        "cpu",
        "reduce/columns.rs",
        "const ROWS: usize = 32",
        "const ROWS: usize = 31",
        &["reduce::columns"],
    );
    only("cpu", "fused/gemm.rs", "[0, 256, 96]", "[0, 256, 97]", &["fused::gemm"]);
    only("wgpu", "matmul/direct.wgsl", "WX", "WZ", &["matmul::direct"]);
    only("wgpu", "fused/vector.rs", "first * each", "first + each", &["fused::vector"]);
    only("wgpu", "reduce/serial.rs", "[64, 32, 128, 256]", "[32, 64, 128, 256]", &["reduce::serial"]);
    only("wgpu", "transpose/naive.rs", "7 * problem", "8 * problem", &["transpose::naive"]);
}

#[test]
fn comments_layout_line_endings_and_tests_change_no_version() {
    let copy = Copy::new();
    for (device, file) in [
        ("cpu", "kernels/matmul/blocked.rs"),
        ("cpu", "kernels/reduce/fold.rs"),
        ("cpu", "kernels/transpose/mod.rs"),
        ("wgpu", "kernels/matmul/head.wgsl"),
        ("wgpu", "kernels/reduce/stage.rs"),
        ("wgpu", "program.rs"),
    ] {
        let before = copy.versions(device);
        let path = copy.0.path().join(format!("trimtab-{device}/src/{file}"));
        let mut text = fs::read_to_string(&path).unwrap();
        let opening = text.find("\n\n").unwrap();
        text.insert_str(opening + 1, "// A word more.\n\n\n/* And /* another */. */\n");
        if file.ends_with(".rs") {
            text.push_str("\n#[cfg(test)]\nmod more_tests {\n    #[test]\n    fn nothing() {}\n}\n");
        }
        fs::write(&path, text.replace('\n', "\r\n")).unwrap();
        assert_eq!(differences(&before, &copy.versions(device)), BTreeSet::new(), "{file}");
    }
    let before = copy.versions("wgpu");
    let files = copy.kernels("wgpu").into_iter().flat_map(|kernel| kernel.files);
    let shaders: BTreeSet<PathBuf> = files.filter(|file| file.extension().unwrap() == "wgsl").collect();
    for shader in &shaders {
        let text = fs::read_to_string(shader).unwrap();
        fs::write(shader, format!("// A word more.\r\n{text}\r\n\r\n")).unwrap();
    }
    assert!(shaders.len() > 20, "only {shaders:?}");
    assert_eq!(differences(&before, &copy.versions("wgpu")), BTreeSet::new());
}

#[test]
fn versions_do_not_depend_on_the_place_and_name_the_library() {
    let (one, other) = (Copy::new(), Copy::new());
    for device in ["cpu", "wgpu"] {
        assert_eq!(one.versions(device), other.versions(device));
    }
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("Cargo.lock"), "name = \"other\"\nversion = \"1.0.0\"\n").unwrap();
    let built_elsewhere = kernels(&one.0.path().join("trimtab-cpu"), elsewhere.path()).unwrap();
    let versions: Vec<String> = built_elsewhere.into_iter().map(|kernel| kernel.version).collect();
    assert_eq!(versions, one.versions("cpu").into_values().collect::<Vec<_>>());
    let lock = fs::read_to_string(one.0.path().join("Cargo.lock")).unwrap();
    let version = |name: &str| {
        let (_, behind) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
        behind.split('"').next().unwrap().to_string()
    };
    for (kernel, library) in [("matmul::gemm", "gemm"), ("matmul::matrixmultiply", "matrixmultiply")] {
        let (found, before) = (&one.versions("cpu")[kernel], version(library));
        assert!(found.starts_with(&format!("{before}+")), "{found}");
        let (from, to) = (
            format!("name = \"{library}\"\nversion = \"{before}"),
            format!("name = \"{library}\"\nversion = \"9"),
        );
        let path = one.0.path().join("Cargo.lock");
        fs::write(&path, lock.replace(&from, &to)).unwrap();
        assert!(one.versions("cpu")[kernel].starts_with("9"));
        fs::write(&path, &lock).unwrap();
    }
}

#[test]
fn without_our_other_crates_beside_it_a_kernel_has_a_version_still() {
    let copy = Copy::new();
    let before = copy.versions("cpu");
    // As Cargo unpacks them.
    let core = |name: &str| copy.0.path().join(name);
    let unpacked = core(&format!("trimtab-core-{}", env!("CARGO_PKG_VERSION")));
    fs::rename(core("trimtab-core"), &unpacked).unwrap();
    assert_eq!(copy.versions("cpu"), before);
    fs::remove_dir_all(&unpacked).unwrap();
    let alone = copy.versions("cpu");
    assert_eq!(differences(&before, &alone).len(), before.len());
    let file = "trimtab-cpu/src/kernels/matmul/blocked.rs";
    let changed = copy.changed_by("cpu", file, "1024 / size", "2048 / size");
    assert_eq!(
        changed.into_iter().collect::<Vec<_>>(),
        ["fused::product", "matmul::blocked", "matmul::converting"]
    );
}

/// The files that paths from `super` and `crate` in a text lead to, and those it includes: plainly, without scopes.
fn named_files(src: &Path, file: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(file).unwrap();
    let code: String = text
        .split("#[cfg(test)]")
        .next()
        .unwrap()
        .lines()
        .map(|line| line.split("//").next().unwrap().to_string() + "\n")
        .collect();
    let parent = file.parent().unwrap();
    let mut found = BTreeSet::new();
    for (start, first) in [("crate::", src), ("super::", parent)] {
        for (at, _) in code.match_indices(start) {
            let word_before = code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'));
            let restricts = code[..at].ends_with("pub(in ");
            let mut dir = first.to_path_buf();
            let mut last = None;
            for segment in code[at + start.len()..].split("::") {
                let name: String = segment.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let (flat, deep) = (dir.join(format!("{name}.rs")), dir.join(&name).join("mod.rs"));
                let is_last = segment.len() != name.len();
                if !flat.exists() && !deep.exists() {
                    break;
                }
                last = Some(if flat.exists() { flat } else { deep });
                dir.push(&name);
                if is_last {
                    break;
                }
            }
            found.extend(last.filter(|_| !word_before && !restricts));
        }
    }
    for (at, start) in code.match_indices("include_str!(\"") {
        let name = code[at + start.len()..].split('"').next().unwrap();
        found.insert(parent.join(name));
    }
    found
}

#[test]
fn every_file_a_kernel_names_is_among_those_it_runs() {
    let copy = Copy::new();
    let mut seen = 0;
    for device in ["cpu", "wgpu"] {
        let src = copy.0.path().join(format!("trimtab-{device}/src"));
        for kernel in copy.kernels(device) {
            let path = kernel.module.replace(&format!("trimtab_{device}::"), "").replace("::", "/");
            let alone = src.join(format!("{path}.rs"));
            let file = if alone.exists() { alone } else { src.join(path).join("mod.rs") };
            assert!(kernel.files.contains(&file), "{file:?}");
            for named in named_files(&src, &file) {
                seen += 1;
                assert!(kernel.files.contains(&named), "{} names {}", kernel.module, named.display());
            }
        }
    }
    assert!(seen > 150, "only {seen} files are named");
}
