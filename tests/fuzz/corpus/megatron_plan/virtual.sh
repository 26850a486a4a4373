--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 --account-for-loss-in-pipeline-split
--num-virtual-stages-per-pipeline-rank 2 --account-for-embedding-in-pipeline-split --context-parallel-size 1
====
b
a
