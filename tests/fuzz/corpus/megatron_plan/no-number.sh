--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 00
--hidden-size 8 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 8
====
a slots=1
b
c
d slots=1
