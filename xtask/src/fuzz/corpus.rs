//! The inputs that are kept in the repository: few, and of those that are there the ones that reach most.

use super::target_command;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The most inputs of a target that are kept in the repository.
pub const MAX_CORPUS: usize = 60;

/// libFuzzer counts how often an edge was taken in eight steps; each is a feature.
const FEATURES_OF_AN_EDGE: u64 = 8;

/// An input and the features it reaches.
#[derive(Clone, Debug, PartialEq)]
struct Input {
    path: PathBuf,
    features: BTreeSet<u64>,
}

/// Makes the corpus of a target of what it has and of what was found.
pub fn merge(root: &Path, built: &Path, target: &str) -> Result<()> {
    let (found, corpus) = (root.join("fuzz/found").join(target), root.join("fuzz/corpus").join(target));
    let (merged, said, files) = (found.join("merged"), found.join("merged.txt"), found.join("files"));
    std::fs::create_dir_all(&merged)?;
    std::fs::create_dir_all(&files)?;
    if said.exists() {
        std::fs::remove_file(&said)?;
    }
    let mut command = target_command(root, built, target);
    command.arg("-set_cover_merge=1").arg(format!("-merge_control_file={}", said.display()));
    command.env("TMPDIR", &files).arg(&merged).arg(&corpus).arg(found.join("new"));
    if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        bail!("the inputs of {target} could not be merged");
    }
    let chosen = choose(inputs(&std::fs::read_to_string(&said)?), MAX_CORPUS);
    // Read before the corpus is cleared: some of them lie in it.
    let mut kept = Vec::new();
    for input in &chosen {
        let path = root.join(&input.path);
        let name = path.file_name().context("a file has a name")?.to_os_string();
        kept.push((name, std::fs::read(&path)?));
    }
    std::fs::remove_dir_all(&merged)?;
    std::fs::remove_dir_all(&files)?;
    if corpus.exists() {
        std::fs::remove_dir_all(&corpus)?;
    }
    std::fs::create_dir_all(&corpus)?;
    for (name, bytes) in &kept {
        std::fs::write(corpus.join(name), bytes)?;
    }
    eprintln!("{target}: {} inputs reach {} edges", kept.len(), edges(&chosen));
    Ok(())
}

/// Reads what libFuzzer writes of a merge: two numbers, the paths, then for each what it reaches.
fn inputs(said: &str) -> Vec<Input> {
    let mut lines = said.lines();
    let count = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let paths = lines.by_ref().skip(1).take(count);
    let mut inputs: Vec<Input> =
        paths.map(|path| Input { path: PathBuf::from(path), features: BTreeSet::new() }).collect();
    for line in lines {
        let mut words = line.split(' ');
        let (Some("FT"), Some(number)) = (words.next(), words.next()) else { continue };
        let input = number.parse::<usize>().ok().and_then(|number| inputs.get_mut(number));
        if let Some(input) = input {
            input.features.extend(words.filter_map(|word| word.parse::<u64>().ok()));
        }
    }
    inputs
}

/// The input that adds most edges, then features, again and again; the first of equals, which is the shortest.
fn choose(mut inputs: Vec<Input>, most: usize) -> Vec<Input> {
    let (mut chosen, mut edges, mut features) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    while chosen.len() < most {
        let gain = |input: &Input| {
            let new: Vec<u64> = input.features.difference(&features).copied().collect();
            let new_edges: BTreeSet<u64> = new.iter().map(|feature| feature / FEATURES_OF_AN_EDGE).collect();
            (new_edges.difference(&edges).count(), new.len())
        };
        let gains = inputs.iter().map(gain).enumerate();
        let best = gains.max_by_key(|(at, gain)| (*gain, std::cmp::Reverse(*at)));
        let Some((at, (_, 1..))) = best else { break };
        let input = inputs.remove(at);
        edges.extend(input.features.iter().map(|feature| feature / FEATURES_OF_AN_EDGE));
        features.extend(&input.features);
        chosen.push(input);
    }
    chosen
}

fn edges(inputs: &[Input]) -> usize {
    let all = inputs.iter().flat_map(|input| &input.features).map(|feature| feature / FEATURES_OF_AN_EDGE);
    all.collect::<BTreeSet<u64>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "4\n1\na\nb\nc\nd\nSTARTED 0 1\nFT 0 8\nCOV 0 5\nSTARTED 1 2\nFT 1 8 16 24\nSTARTED 2 3\nFT 2 8 17 32\nSTARTED 3 9\n";

    #[test]
    fn what_a_merge_says_is_read_and_an_input_that_was_not_finished_reaches_nothing() {
        let inputs = inputs(SAID);
        let reached: Vec<Vec<u64>> =
            inputs.iter().map(|input| Vec::from_iter(input.features.clone())).collect();
        assert_eq!(reached, [vec![8], vec![8, 16, 24], vec![8, 17, 32], vec![]]);
        assert_eq!(inputs[3].path, Path::new("d"));
        assert_eq!(super::inputs("nonsense"), []);
    }

    #[test]
    fn those_that_add_most_are_kept_and_those_that_add_nothing_are_not() {
        let paths = |most: usize| {
            let chosen = choose(inputs(SAID), most);
            chosen.iter().map(|input| input.path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths(9), ["b", "c"]);
        assert_eq!(paths(1), ["b"]);
        assert_eq!(edges(&choose(inputs(SAID), 9)), 4);
    }
}
