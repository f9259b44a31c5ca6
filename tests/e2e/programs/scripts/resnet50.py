"""ResNet-50 of torchvision, channels last, mixed precision with a scaler, a DataLoader, cuDNN's benchmark mode."""

import torch
import torchvision

torch.backends.cudnn.benchmark = True
data = torchvision.datasets.FakeData(
    size=24, image_size=(3, 224, 224), num_classes=10, transform=torchvision.transforms.ToTensor()
)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1, pin_memory=True)
model = torchvision.models.resnet50(weights=None, num_classes=10).cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cuda")
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
correct = 0
for images, labels in loader:
    images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
    labels = labels.cuda(non_blocking=True)
    with torch.autocast("cuda", torch.float16):
        out = model(images)
        loss = torch.nn.functional.cross_entropy(out, labels, label_smoothing=0.1)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    correct += (out.argmax(1) == labels).sum().item()
model.eval()
with torch.inference_mode():
    model(images)
print("scale", scaler.get_scale(), "correct", correct)
