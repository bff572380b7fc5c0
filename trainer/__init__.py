"""From trajectories to a better policy: the training set, the stages, the rollouts; ``python -m trainer STAGE``.

One recipe a file: ``warmup``, ``rft``, ``value``, ``ppo``, ``contrast`` and ``cycle``. What they share lies in packages:
``data`` (from stored sessions to token ids with masks, log-probabilities and rewards), ``maths`` (pure functions of
tensors), ``policy`` (the model that is trained, and its critic), ``run`` (checkpoints, metrics, guards, processes),
``rollout`` (sessions and single answers of the policy in training) and ``tasks`` (what it practises on).

Sources: CUDA Agent (arXiv 2602.24286) for the stages, CUDA-L1 (arXiv 2507.14111) for contrast, VC-PPO (arXiv 2503.01491)
and VAPO (arXiv 2504.05118) for what the long-horizon preset does differently.
"""
