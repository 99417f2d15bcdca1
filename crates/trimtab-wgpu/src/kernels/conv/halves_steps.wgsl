        if atomicLoad(&odd) == turn {
            for (var at = first; at < min(first + BK, inner); at += 1u) {
$WHOLE            }
        } else {
$PLAIN        }
