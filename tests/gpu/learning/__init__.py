"""Learning is real: a small pretrained model learns to write the line that a kernel lacks, and does better on other operators.

From the repository root; it prints as it goes, and every line of ``results.jsonl`` is written when it is known::

    python -m tests.gpu.learning --model FOLDER --at-once 6 --learn-on cuda:0 --judge-on cuda:1 --minutes 8.5
    python -m tests.gpu.learning --model FOLDER --runs whole-1 --learn-on cuda:1 --judge-on cuda:1 --no-baselines
    python -m tests.gpu.learning --model FOLDER --runs whole-0 no-rft-0    some of the runs, on one device; beside it, another:
    python -m tests.gpu.learning --table                                   what is known so far
    python -m tests.gpu.learning --draw curves.png                         the curves

``--folder`` is where ``results.jsonl`` and ``judged.jsonl`` lie: what was judged is never judged again, and a run that was cut
off begins anew on it. Runs are processes of their own and share one desk. PPO ends when the time does, with an evaluation.
A run is the whole recipe (samples of the start model, rejection fine-tuning, value pretraining, PPO) or lacks a part of it:

| run | what |
|---|---|
| ``whole-0``, ``whole-1``, ``whole-2`` | the whole recipe, three seeds |
| ``no-rft-0`` | without rejection fine-tuning |
| ``no-value-0`` | without value pretraining |
| ``raw-speedup-0`` | the speed-up over torch.compile as reward, in place of -1, 1, 2, 3 |

Every reward is a quick verdict of the judge with three placements. Tasks are those of ``trainer.tasks.rows`` whose known answers
the judge tells apart on this device. Beside the runs stand a random policy (answers drawn from those that are right for some task
of training), the best constant answer to each kind of question, and the best of twelve answers of the start model.

What has been seen is told in ``tests/gpu/learning.md``, with the curves. A run alone on a GPU of its own takes about 500 s of
judging for its first dozen steps of PPO, on 16 cores with ``--judges 5``: two judges a second on answers that are wrong, 4 s for
one that is right, 1.1 of them alone on its device. What one run asked the others know: carry both files on from call to call.
"""
