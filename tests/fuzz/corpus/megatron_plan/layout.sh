torchrun pretrain_gpt.py --tensor-model-parallel-size 1 --pipeline-model-parallel-size=2 \
  --num-layers 4 --pipeline-model-parallel-layout "Et*3|(t)*1,L" --use-tp-pp-dp-mapping # comment
====
rank 1=b slot=0-15
rank 0=a:0 slot=0:*
rank 2=c
rank 3=d
